"""Queues that break one rule each: negative controls for the random histories."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Literal, Unpack

from msgspec.structs import replace

from shoal.core.model import ZERO, DeadLetter, Grant, Note, Run
from shoal.queue.contract import DEFAULT_LEASE, EditFate, Fence, LetterEdit, RunLimits
from shoal.queue.intake import QueuedTask
from tests.conformance.model import ModelQueue
from tests.conformance.state import ModelState, Names, Row, State


class HandsOutTwice(ModelState):
    """A leased task is claimed again, as by a claim without a lock."""

    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        leased = [row for row in self.of_run(run_id) if row.state is State.LEASED]
        return super().candidates(run_id, steps, partitions) + leased


class ForgetsTheGap(ModelState):
    def host_free_at(self, run: Run, name: str) -> datetime | None:
        self.hosts[name].starts.clear()
        return super().host_free_at(run, name)


class CountsLeasesOfOneRunOnly(ModelState):
    def host_free_at(self, run: Run, name: str) -> datetime | None:
        mine = ModelState(self.now, rows={row.id: row for row in self.of_run(run.id)}, hosts=self.hosts)
        return mine.host_free_at(run, name)


class IgnoresPauses(ModelState):
    def pause(self, name: str, duration: timedelta) -> None:
        """Do not."""


class IgnoresPriority(ModelState):
    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        return sorted(super().candidates(run_id, steps, partitions), key=lambda row: row.order)


class NeverExpires(ModelState):
    def wake_and_expire(self, rows: Iterable[Row]) -> None:
        lasting = [row for row in rows if row.expires_at is None]
        super().wake_and_expire(lasting)


class RepeatsTokens(ModelState):
    def lease(self, row: Row, worker_id: str, token: int, start: datetime, deadline: datetime) -> None:
        super().lease(row, worker_id, token, start, deadline)
        self.last_token = 0


class RevivesTheDoomed(ModelState):
    """A task that kills its workers never runs out of attempts."""

    def end_lost(self, row: Row) -> None:
        self.fail(row, "lease lost", bury=False)


class ForgetsCompletedKeys(ModelState):
    def add(self, run_id: str, entry: QueuedTask) -> Literal["added", "duplicate", "known"]:
        row = self.rows.get(entry.id.hex())
        if row and row.state is State.COMPLETED:
            del self.rows[row.id]
        return super().add(run_id, entry)


class SaysDrainedTooEarly(ModelState):
    """Leased tasks are forgotten."""

    def drained(self, run_id: str) -> bool:
        return not any(row.state in (State.PENDING, State.DELAYED) for row in self.of_run(run_id))


class OversleepsDelays(ModelState):
    def first_due(self, run: Run, steps: Names, partitions: Names, lead: timedelta = ZERO) -> datetime | None:
        due = super().first_due(run, steps, partitions, lead)
        return due and due + timedelta(seconds=10)


class Broken(ModelQueue):
    """The model with a broken state."""

    state_class: ClassVar[type[ModelState]]

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.data = self.state_class(now)


class ChargesTheAbandoned(ModelQueue):
    """An abandoned task is treated as if its worker had died of it."""

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        abandoned = self.data.held_by(worker_id)
        for row in abandoned:
            self.data.end_lost(row)
        return len(abandoned)


class EditsWhateverIsThere(ModelQueue):
    """An edit that does not compare the letter with the one that was read."""

    def _edit_one(self, edit: LetterEdit, entry: QueuedTask, found: DeadLetter | None) -> EditFate:
        return super()._edit_one(replace(edit, letter=found) if found else edit, entry, found)


class KeepsTheOldDelay(ModelQueue):
    """A change of a run's delay is reported, and not obeyed."""

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        old = self.data.run(run_id).settings.host_delay
        new = await super().change_run(run_id, **limits)
        self.data.runs[run_id] = replace(new, settings=replace(new.settings, host_delay=old))
        return new


class SwapsWhateverIsThere(ModelQueue):
    """A swap that is a plain write."""

    async def swap_note(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        *,
        stamp: int | None,
        ttl: timedelta | None = None,
    ) -> Note | None:
        there = self.data.stamp_of(topic, key)
        return await super().swap_note(topic, key, value, stamp=there, ttl=ttl)


class ClaimsNothing(ModelQueue):
    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Names = None,
        partitions: Names = None,
        fence: Fence | None = None,
        lead: timedelta = ZERO,
    ) -> Grant:
        return Grant(drained=self.data.drained(run_id))


BROKEN_STATES: list[type[ModelState]] = [
    HandsOutTwice,
    ForgetsTheGap,
    CountsLeasesOfOneRunOnly,
    IgnoresPauses,
    IgnoresPriority,
    NeverExpires,
    RepeatsTokens,
    RevivesTheDoomed,
    ForgetsCompletedKeys,
    SaysDrainedTooEarly,
    OversleepsDelays,
]
FAULTS: dict[str, type[ModelQueue]] = {
    "ChargesTheAbandoned": ChargesTheAbandoned,
    "ClaimsNothing": ClaimsNothing,
    "EditsWhateverIsThere": EditsWhateverIsThere,
    "KeepsTheOldDelay": KeepsTheOldDelay,
    "SwapsWhateverIsThere": SwapsWhateverIsThere,
    **{state.__name__: type(state.__name__, (Broken,), {"state_class": state}) for state in BROKEN_STATES},
}

"""Queues that break one rule each: negative controls for the random histories."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Unpack

from shoal.core.model import ZERO, DeadLetter, Fate, Grant, Lease, Note, Outcome, Release, Run, TaskStatus
from shoal.queue.contract import DEFAULT_LEASE, EditFate, Fence, LetterEdit, RunLimits
from shoal.queue.intake import QueuedTask
from tests.conformance.model import ModelQueue
from tests.conformance.state import ModelState, Names, Row, State, StoredNote


class HandsOutTwice(ModelState):
    """A leased task is claimed again, as by a claim without a lock."""

    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        leased = [row for row in self.of_run(run_id) if row.state is State.LEASED]
        return super().candidates(run_id, steps, partitions) + leased


class ForgetsTheGap(ModelState):
    def host_free_at(self, run: Run, name: str) -> datetime | None:
        self.hosts[name].starts.clear()
        return super().host_free_at(run, name)


class ForgetsTheOtherRunsDelay(ModelState):
    def host_free_at(self, run: Run, name: str) -> datetime | None:
        for start in self.hosts[name].starts:
            start.delay = timedelta(0)
        return super().host_free_at(run, name)


class KeepsUnusedStarts(ModelState):
    def give_back(self, row: Row) -> None:
        """Do not."""


class GivesBackTheLastStart(ModelState):
    """Gives back the last start, whichever lease it belongs to."""

    def give_back(self, row: Row) -> None:
        if row.start and self.hosts[row.entry.host].starts:
            self.hosts[row.entry.host].starts.pop()


class ReleasesAtOnce(ModelState):
    def release(self, row: Row, after: timedelta = ZERO) -> None:
        super().release(row)


class CountsLeasesOfOneRunOnly(ModelState):
    def host_free_at(self, run: Run, name: str) -> datetime | None:
        mine = ModelState(self.now, rows={row.id: row for row in self.of_run(run.id)}, hosts=self.hosts)
        return mine.host_free_at(run, name)


class IgnoresPauses(ModelState):
    def pause(self, name: str, duration: timedelta) -> None:
        """Do not."""


class ShortensPauses(ModelState):
    def pause(self, name: str, duration: timedelta) -> None:
        self.hosts[name].paused_until = None
        super().pause(name, duration)


class ForgetsSlowHosts(ModelState):
    def slow(self, name: str, delay: timedelta) -> None:
        """Do not."""


class IgnoresPriority(ModelState):
    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        return sorted(super().candidates(run_id, steps, partitions), key=lambda row: row.order)


class StaysBehindBlockedHosts(ModelState):
    """Considers only the first pending task."""

    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        return super().candidates(run_id, steps, partitions)[:1]


class IgnoresFilters(ModelState):
    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        return super().candidates(run_id, None, None)


class NeverExpires(ModelState):
    def wake_and_expire(self, rows: Iterable[Row]) -> None:
        lasting = [row for row in rows if row.expires_at is None]
        super().wake_and_expire(lasting)


class RepeatsTokens(ModelState):
    def lease(self, row: Row, worker_id: str, token: int, start: datetime, deadline: datetime) -> None:
        super().lease(row, worker_id, token, start, deadline)
        self.last_token = 0


class ListensToZombies(ModelState):
    def held(self, lease: Lease) -> Row | None:
        row = self.rows.get(lease.task_id)
        return row if row and row.state is State.LEASED else None


class RevivesTheDoomed(ModelState):
    """A task that kills its workers never runs out of attempts."""

    def end_lost(self, row: Row) -> None:
        self.fail(row, "lease lost", bury=False)


class AbandonsTheLiving(ModelState):
    """One worker's death ends the leases of all."""

    def held_by(self, worker_id: str) -> list[Row]:
        return [row for row in self.rows.values() if row.state is State.LEASED]


class AbandonsNoLostLease(ModelState):
    """Leaves leases past their deadline, so that they are charged with an attempt."""

    def held_by(self, worker_id: str) -> list[Row]:
        return [row for row in super().held_by(worker_id) if row.deadline > self.now()]


class LosesHistory(ModelState):
    def revive(self, row: Row, delay: timedelta = ZERO) -> None:
        super().revive(row, delay)
        row.history.clear()


class KeepsAttemptsOnReplay(ModelState):
    def revive(self, row: Row, delay: timedelta = ZERO) -> None:
        attempts = row.attempts
        super().revive(row, delay)
        row.attempts = attempts


class ForgetsCompletedKeys(ModelState):
    def add(self, run_id: str, entry: QueuedTask) -> Literal["added", "duplicate", "known"]:
        row = self.rows.get(entry.id.hex())
        if row and row.state is State.COMPLETED:
            del self.rows[row.id]
        return super().add(run_id, entry)


class QueuesWhatOtherRunsHaveQueued(ModelState):
    def add(self, run_id: str, entry: QueuedTask) -> Literal["added", "duplicate", "known"]:
        return super().add(run_id, entry._replace(scraper_key=None))


class KnowsItsOwnTasks(ModelState):
    """Reports tasks that the run itself has queued as known instead of duplicate."""

    def add(self, run_id: str, entry: QueuedTask) -> Literal["added", "duplicate", "known"]:
        found = super().add(run_id, entry)
        return "known" if found == "duplicate" and entry.scraper_key else found


class KeepsNotesForEver(ModelState):
    def live_notes(self) -> dict[tuple[str, str], StoredNote]:
        return dict(self.notes)


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


class KeepsReleasedAttempts(ModelQueue):
    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        fates = await super().settle(outcomes)
        for outcome, fate in zip(outcomes, fates, strict=True):
            if isinstance(outcome, Release) and fate is Fate.ACCEPTED:
                self.data.rows[outcome.lease.task_id].attempts += 1
        return fates


class ChargesTheAbandoned(ModelQueue):
    """An abandoned task is treated as if its worker had died of it."""

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        abandoned = self.data.held_by(worker_id)
        for row in abandoned:
            self.data.end_lost(row)
        return len(abandoned)


class ExtendsEveryWorker(ModelQueue):
    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        for other in {row.worker_id for row in self.data.rows.values()} - {worker_id}:
            await super().extend_worker(other, lease=lease)
        return await super().extend_worker(worker_id, lease=lease)


class RevivesLostLeases(ModelQueue):
    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        for row in self.data.held_by(worker_id):
            row.deadline = self.data.now() + lease
        return len(self.data.held_by(worker_id))


class EditsWhateverIsThere(ModelQueue):
    """An edit that does not compare the letter with the one that was read."""

    def _edit_one(self, edit: LetterEdit, entry: QueuedTask, found: DeadLetter | None) -> EditFate:
        return super()._edit_one(replace(edit, letter=found) if found else edit, entry, found)


class EditsNoKey(ModelQueue):
    """An edited letter keeps its old key as well."""

    def _edit_one(self, edit: LetterEdit, entry: QueuedTask, found: DeadLetter | None) -> EditFate:
        row = self.data.rows.get(edit.letter.id)
        fate = super()._edit_one(edit, entry, found)
        if row and fate is EditFate.EDITED and row.id != edit.letter.id:
            self.data.rows[edit.letter.id] = row
        return fate


class KeepsTheOldAttempts(ModelQueue):
    """A change of a run's attempts is reported, and not obeyed."""

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        old = self.data.run(run_id).settings.max_attempts
        new = await super().change_run(run_id, **limits)
        self.data.runs[run_id] = replace(new, settings=replace(new.settings, max_attempts=old))
        return new


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


class ShowsTheDeadAsPending(ModelQueue):
    async def tasks(self, run_id: str, **asked: Any) -> AsyncIterator[TaskStatus]:
        async for status in super().tasks(run_id, **asked):
            yield replace(status, state=State.PENDING) if status.state is State.DEAD else status


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
    ForgetsTheOtherRunsDelay,
    CountsLeasesOfOneRunOnly,
    IgnoresPauses,
    ShortensPauses,
    ForgetsSlowHosts,
    KeepsUnusedStarts,
    GivesBackTheLastStart,
    ReleasesAtOnce,
    IgnoresPriority,
    StaysBehindBlockedHosts,
    IgnoresFilters,
    NeverExpires,
    RepeatsTokens,
    ListensToZombies,
    RevivesTheDoomed,
    AbandonsTheLiving,
    AbandonsNoLostLease,
    LosesHistory,
    KeepsAttemptsOnReplay,
    ForgetsCompletedKeys,
    QueuesWhatOtherRunsHaveQueued,
    KnowsItsOwnTasks,
    KeepsNotesForEver,
    SaysDrainedTooEarly,
    OversleepsDelays,
]
FAULTS: dict[str, type[ModelQueue]] = {
    "KeepsReleasedAttempts": KeepsReleasedAttempts,
    "ChargesTheAbandoned": ChargesTheAbandoned,
    "ClaimsNothing": ClaimsNothing,
    "ExtendsEveryWorker": ExtendsEveryWorker,
    "RevivesLostLeases": RevivesLostLeases,
    "EditsWhateverIsThere": EditsWhateverIsThere,
    "EditsNoKey": EditsNoKey,
    "KeepsTheOldAttempts": KeepsTheOldAttempts,
    "KeepsTheOldDelay": KeepsTheOldDelay,
    "SwapsWhateverIsThere": SwapsWhateverIsThere,
    "ShowsTheDeadAsPending": ShowsTheDeadAsPending,
    **{state.__name__: type(state.__name__, (Broken,), {"state_class": state}) for state in BROKEN_STATES},
}

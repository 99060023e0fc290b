"""The part that one launcher has in the plan of a run: its workers are known, and a better plan is written.

Every launcher of the run does the same, wherever it is; of two that write at once, one is told that it was
not, and looks again. It is not the workers that do this, for a step may block them.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import QueueError, RunConflict
from shoal.core.model import Note
from shoal.fleet.handover import is_same, renewed
from shoal.fleet.table import check_table
from shoal.queue.contract import Queue
from shoal.worker.duties import beside
from shoal.worker.keeper import FROZEN, RUNNING
from shoal.worker.share import LOOKS, MEMBER, PLAN, Plan, Sharing, read_plan, topic_of

# A worker that has not been heard of for this part of a heartbeat is dead: a look in vain, one that is late,
# and one to spare. The rest of the heartbeat is for the launcher that finds out.
LIFE = 3 / LOOKS
SOON = 0.05  # seconds; how soon to look again, and then less and less, while a partition is on its way here
MOST_TRIES = 10
# So that the plans of runs that are long over do not stay for ever.
KEPT = timedelta(days=30)
OUTSIDER = timedelta(seconds=15)  # since the last heartbeat of a worker that is taken to be alive


class Membership:
    """Keeps workers in the plan of a run for as long as they are there."""

    def __init__(self, queue: Queue, run_id: str, sharing: Sharing) -> None:
        self._queue, self._run_id, self._sharing = queue, run_id, sharing
        self._topic = topic_of(run_id)
        self._mine: set[str] = set()
        self._gone: set[str] = set()
        self._retired = self._is_closing = False
        self._awaited = False  # whether a partition is on its way to one of mine
        self._soon = SOON
        self._changed = asyncio.Event()
        self._attending = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._attending.enter_async_context(beside("sharing out partitions", self._attend()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A driver may swallow a cancellation that comes while it talks to its server.
        self._is_closing = True
        self._changed.set()
        try:
            await self._attending.__aexit__(kind, error, trace)
        finally:
            with suppress(QueueError):
                await self._drop(self._mine | self._gone)

    @asynccontextmanager
    async def joined(self, worker_id: str) -> AsyncIterator[None]:
        """Have a worker in the plan while it works."""
        self._mine.add(worker_id)
        self._changed.set()
        try:
            yield
        finally:
            self._mine.discard(worker_id)
            self._gone.add(worker_id)
            self._changed.set()

    def retire(self) -> None:
        """Let others have the partitions: the workers of this launcher finish what they have in hand."""
        self._retired = True
        self._changed.set()

    async def _attend(self) -> None:
        while not self._is_closing:
            self._changed.clear()
            with suppress(QueueError):
                await self._make_known()
                await self._improve()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause):
                    await self._changed.wait()

    @property
    def _pause(self) -> float:
        every = self._sharing.look_every
        self._soon = min(2 * self._soon, every) if self._awaited else SOON
        return self._soon if self._awaited else every

    async def _make_known(self) -> None:
        leaving = self._gone | (self._mine if self._retired else set())
        if leaving:
            await self._drop(leaving)
            self._gone -= leaving
        if self._mine - leaving:
            notes = {MEMBER + worker: b"" for worker in self._mine - leaving}
            await self._queue.write_notes(self._topic, notes, ttl=self._sharing.heartbeat * LIFE)

    async def _drop(self, workers: Collection[str]) -> None:
        if workers:
            await self._queue.write_notes(self._topic, {MEMBER + worker: None for worker in workers})

    async def _improve(self) -> None:
        """Write a better plan if there is one, until nobody can do better at the moment."""
        for _ in range(MOST_TRIES):
            notes = await self._queue.notes(self._topic)
            plan, members = read_plan(notes), members_of(notes)
            self._awaited = any(holding.coming in self._mine for holding in plan.holdings.values())
            if not members or not self._is_mine_to_improve(plan, members):
                return
            if self._awaited:
                await self._queue.reclaim()  # what a dead worker held
            better = await self._better(plan, members, notes)
            if better is None:
                return
            await self._queue.swap_note(
                self._topic,
                PLAN,
                msgspec.json.encode(better),
                stamp=notes[PLAN].stamp if PLAN in notes else None,
                ttl=KEPT,
            )

    def _is_mine_to_improve(self, plan: Plan, members: Collection[str]) -> bool:
        """Tell whether to look closer: all see who comes and goes, one watches the work that is left."""
        seats = [worker for worker in plan.seats if worker]
        return self._awaited or set(seats) != set(members) or seats[0] in self._mine

    async def _better(self, plan: Plan, members: Collection[str], notes: Mapping[str, Note]) -> Plan | None:
        counts = (await self._queue.stats(self._run_id)).partitions
        age = notes[PLAN].age if PLAN in notes else timedelta(0)
        better = renewed(self._begun(plan, members), members, counts, age.total_seconds())
        return None if is_same(plan, better) and age < KEPT / 2 else better

    def _begun(self, plan: Plan, members: Collection[str]) -> Plan:
        """Return the plan to go on from; where nobody keeps to it any more, it is as it is wished here.

        What was held by it stays held. Of two wishes that come at once, the stricter one counts.
        """
        mine = self._sharing
        if set(plan.seats) & set(members) and (plan.exclusive or not mine.exclusive):
            return plan
        return msgspec.structs.replace(plan, exclusive=mine.exclusive, homes=mine.homes or plan.homes)


def members_of(notes: Mapping[str, Note]) -> set[str]:
    """Return the workers that are alive, by the notes of a run."""
    return {key.removeprefix(MEMBER) for key in notes if key.startswith(MEMBER)}


async def admit(queue: Queue, run_id: str, sharing: Sharing | None) -> None:
    """Raise RunConflict or InvalidSetting when workers may not join a run like this."""
    notes = await queue.notes(topic_of(run_id))
    plan, is_at_work = read_plan(notes), bool(members_of(notes))
    if sharing is None:
        # Even with nobody at work: one who sleeps may wake, and its plan still stands.
        _refuse_if(plan.exclusive, run_id, "is shared out by partitions; join it with --partitions exclusive")
        return
    if is_at_work:
        mode = "exclusive" if plan.exclusive else "auto"
        is_other = plan.exclusive != sharing.exclusive
        _refuse_if(is_other, run_id, f"is shared out by partitions; join it with --partitions {mode}")
    if sharing.homes:
        check_table(sharing.homes, (await queue.stats(run_id)).partitions, run_id)
        is_other = is_at_work and plan.homes != sharing.homes
        _refuse_if(is_other, run_id, "is shared out by another table; join it without --partition-table")
    if sharing.exclusive:
        await _refuse_outsiders(queue, run_id)


def _refuse_if(is_so: bool, run_id: str, reason: str) -> None:
    if is_so:
        raise RunConflict(run_id, reason)


async def _refuse_outsiders(queue: Queue, run_id: str) -> None:
    for worker in await queue.workers(run_id):
        is_alive = worker.state in (RUNNING, FROZEN) and worker.last_beat < OUTSIDER
        if is_alive and "sharing" not in worker.info and "role" not in worker.info:
            raise RunConflict(
                run_id,
                f"is worked on by {worker.worker_id}, which keeps to no plan; stop it, or join it without "
                "--partitions exclusive",
            )

"""A launcher's membership in the partition plan of a run: it registers its workers and improves the plan.

Every launcher of the run does the same, on any machine; of two concurrent writes one fails, and that launcher
reads the plan again. Workers cannot do this, because a step may block them.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import QueueError, RunConflict
from shoal.core.model import Note, WorkerState
from shoal.core.tasks import wait_for_event
from shoal.fleet.partitions.plan import is_same, next_plan
from shoal.fleet.partitions.table import check_table
from shoal.queue.contract import Queue, QueueReports, SharedNotes
from shoal.worker.background import run_beside
from shoal.worker.partitions import (
    MEMBER,
    PLAN,
    POLLS_PER_HEARTBEAT,
    PartitionMode,
    PartitionPlan,
    PartitionRole,
    read_plan,
    topic_of,
)

# A worker that is not renewed for this part of a heartbeat is dead: one missed renewal, one late one, and one
# spare. The rest of the heartbeat is for the launcher that notices.
MEMBER_TTL = 3 / POLLS_PER_HEARTBEAT
# Seconds to the next poll while a partition is being handed over to this launcher; it doubles each time.
MIN_POLL_INTERVAL_SECONDS = 0.05
MAX_TRIES = 10
# So that the plans of old runs do not stay forever.
PLAN_TTL = timedelta(days=30)
MAX_SILENCE = timedelta(seconds=15)  # since the last heartbeat of a worker that counts as alive


class Membership:
    """Keeps workers registered in the plan of a run while they run."""

    def __init__(self, queue: Queue, run_id: str, sharing: PartitionRole) -> None:
        self._queue, self._run_id, self._sharing = queue, run_id, sharing
        self._topic = topic_of(run_id)
        self._mine: set[str] = set()
        self._gone: set[str] = set()
        self._retired = self._is_closing = False
        self._awaited = False  # whether a partition is being handed over to a worker of this launcher
        self._interval = MIN_POLL_INTERVAL_SECONDS
        self._changed = asyncio.Event()
        self._background = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._background.enter_async_context(run_beside("assigning partitions", self._keep_updating()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A driver may swallow a cancellation during a request to its server.
        self._is_closing = True
        self._changed.set()
        try:
            await self._background.__aexit__(kind, error, trace)
        finally:
            with suppress(QueueError):
                await self._drop(self._mine | self._gone)

    @asynccontextmanager
    async def member(self, worker_id: str) -> AsyncIterator[None]:
        """Register a worker in the plan inside the block."""
        self._mine.add(worker_id)
        self._changed.set()
        try:
            yield
        finally:
            self._mine.discard(worker_id)
            self._gone.add(worker_id)
            self._changed.set()

    def retire(self) -> None:
        """Release the partitions to others: the workers of this launcher only finish their running tasks."""
        self._retired = True
        self._changed.set()

    async def _keep_updating(self) -> None:
        while not self._is_closing:
            self._changed.clear()
            with suppress(QueueError):
                await self._register()
                await self._improve_plan()
            await wait_for_event(self._changed, self._pause)

    @property
    def _pause(self) -> float:
        longest = self._sharing.poll_interval.total_seconds()
        self._interval = min(2 * self._interval, longest) if self._awaited else MIN_POLL_INTERVAL_SECONDS
        return self._interval if self._awaited else longest

    async def _register(self) -> None:
        leaving = self._gone | (self._mine if self._retired else set())
        if leaving:
            await self._drop(leaving)
            self._gone -= leaving
        if self._mine - leaving:
            notes = {MEMBER + worker: b"" for worker in self._mine - leaving}
            await self._queue.write_notes(self._topic, notes, ttl=self._sharing.heartbeat * MEMBER_TTL)

    async def _drop(self, workers: Collection[str]) -> None:
        if workers:
            await self._queue.write_notes(self._topic, {MEMBER + worker: None for worker in workers})

    async def _improve_plan(self) -> None:
        """Write a better plan if there is one, until it cannot be improved."""
        for _ in range(MAX_TRIES):
            notes = await self._queue.notes(self._topic)
            plan, members = read_plan(notes), members_of(notes)
            self._awaited = any(holding.coming in self._mine for holding in plan.holdings.values())
            if not members or not self._should_improve(plan, members):
                return
            if self._awaited:
                await self._queue.reclaim()  # the leases of a dead worker
            better = await self._next_plan(plan, members, notes)
            if better is None:
                return
            await self._queue.swap_note(
                self._topic,
                PLAN,
                msgspec.json.encode(better),
                stamp=notes[PLAN].stamp if PLAN in notes else None,
                ttl=PLAN_TTL,
            )

    def _should_improve(self, plan: PartitionPlan, members: Collection[str]) -> bool:
        """Return whether to compute a plan: all launchers react to membership changes, one to work left."""
        seats = [worker for worker in plan.seats if worker]
        return self._awaited or set(seats) != set(members) or seats[0] in self._mine

    async def _next_plan(
        self, plan: PartitionPlan, members: Collection[str], notes: Mapping[str, Note]
    ) -> PartitionPlan | None:
        counts = (await self._queue.stats(self._run_id)).partitions
        age = notes[PLAN].age if PLAN in notes else timedelta(0)
        better = next_plan(self._base_plan(plan, members), members, counts, age.total_seconds())
        return None if is_same(plan, better) and age < PLAN_TTL / 2 else better

    def _base_plan(self, plan: PartitionPlan, members: Collection[str]) -> PartitionPlan:
        """Return the plan to start from; if no member follows it any more, this launcher's mode applies.

        What was held by it stays held. Of two concurrent modes, the stricter one wins.
        """
        mine = self._sharing
        if set(plan.seats) & set(members) and (plan.exclusive or not mine.exclusive):
            return plan
        return msgspec.structs.replace(plan, exclusive=mine.exclusive, homes=mine.homes or plan.homes)


def members_of(notes: Mapping[str, Note]) -> set[str]:
    """Return the workers that are alive, by the notes of a run."""
    return {key.removeprefix(MEMBER) for key in notes if key.startswith(MEMBER)}


async def planned_mode(queue: SharedNotes, run_id: str) -> PartitionMode | None:
    """Return how the plan of a run divides its partitions among its workers; None without a plan."""
    notes = await queue.notes(topic_of(run_id), [PLAN])
    return PartitionMode.of(read_plan(notes).exclusive) if notes else None


async def admit(queue: Queue, run_id: str, sharing: PartitionRole | None) -> None:
    """Raise RunConflict or InvalidSetting if workers may not join a run with this partition mode."""
    notes = await queue.notes(topic_of(run_id))
    plan, is_at_work = read_plan(notes), bool(members_of(notes))
    if sharing is None:
        # Even without running workers: a sleeping one may wake, and its plan is still valid.
        _refuse_if(plan.exclusive, run_id, "is assigned by partitions; join it with --partitions exclusive")
        return
    if is_at_work:
        mode = PartitionMode.of(plan.exclusive)
        is_other = plan.exclusive != sharing.exclusive
        _refuse_if(is_other, run_id, f"is assigned by partitions; join it with --partitions {mode}")
    if sharing.homes:
        check_table(sharing.homes, (await queue.stats(run_id)).partitions, f"run {run_id}")
        is_other = is_at_work and plan.homes != sharing.homes
        _refuse_if(is_other, run_id, "is assigned by another table; join it without --partition-table")
    if sharing.exclusive:
        await _refuse_workers_without_plan(queue, run_id)


def _refuse_if(is_so: bool, run_id: str, reason: str) -> None:
    if is_so:
        raise RunConflict(run_id, reason)


async def _refuse_workers_without_plan(queue: QueueReports, run_id: str) -> None:
    for worker in await queue.workers(run_id):
        has_plan = "sharing" in worker.info or worker.is_coordinator
        is_alive = worker.state in (WorkerState.RUNNING, WorkerState.FROZEN)
        if is_alive and worker.last_beat < MAX_SILENCE and not has_plan:
            raise RunConflict(
                run_id,
                f"is worked on by {worker.worker_id}, which follows no plan; stop it, or join without "
                "--partitions exclusive",
            )

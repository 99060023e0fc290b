"""The outbox of each server: parcels that it has accepted, and that belong to another server.

The process that settles a page sends its parcels on at once. What is left because a process died or a
server was away is sent by any process that claims from the run. A parcel is completed after its tasks have
been enqueued, and a server enqueues a key once, so a parcel that is sent twice changes nothing.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.model import (
    OUTBOX_STEP,
    SECOND,
    DeadFilter,
    Done,
    Lease,
    Outcome,
    Release,
    RunSettings,
    Task,
)
from shoal.queue.intake import Intake
from shoal.queue.sharded.members import Member, Members, cancel
from shoal.queue.sharded.parcels import unpack
from shoal.queue.sharded.runs import ShardedRuns

FORWARDER = OUTBOX_STEP  # the worker id of those that send parcels; it has no heartbeat, so it is not listed
BATCH = 100  # parcels at a time
PARCEL_LEASE = 30 * SECOND
# Seconds: a server that does not respond must not hold up the settlements of the others.
DELIVERY_TIMEOUT_SECONDS, SEND_TIMEOUT_SECONDS = 3.0, 6.0
RETRY_AFTER = 2 * SECOND  # a parcel for a server that is away
SWEEP_INTERVAL_SECONDS = 10.0  # between two searches of one process for parcels that were left

Mail = Sequence[tuple[Member, Task]]  # tasks in their order, with their owners


class Outbox:
    """Sends parcels to the servers that own their tasks."""

    def __init__(self, members: Members, runs: ShardedRuns) -> None:
        self._members, self._runs = members, runs
        self._swept: dict[str, float] = {}

    async def send(self, run_id: str, origin: Member, mail: Mail, keys: Collection[str]) -> None:
        """Enqueue tasks that a server has just accepted in parcels with these keys, and complete those.

        If a server does not respond, its parcels stay in the outbox.
        """
        if origin.is_away:
            return
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await self._send(run_id, origin, mail, keys)
        except TimeoutError:
            origin.is_away = True  # an owner that does not respond is given up sooner

    async def _send(self, run_id: str, origin: Member, mail: Mail, keys: Collection[str]) -> None:
        enqueueing = asyncio.create_task(self._deliver(run_id, mail))
        try:
            leases = await self._claim(run_id, origin, max(BATCH, len(keys)))
        except BaseException:
            await cancel([enqueueing])
            raise
        away = await enqueueing
        await self._complete(run_id, origin, leases, keys if not away else ())

    async def forward(self, run_id: str, origin: Member) -> None:
        """Send what is in the outbox of a server, as far as that is possible now."""
        while leases := await self._claim(run_id, origin, BATCH):
            await self._complete(run_id, origin, leases, ())
            if len(leases) < BATCH:
                return

    def should_sweep(self, run_id: str) -> bool:
        """Return whether it is time to look for parcels that were left; the answer is yes only once."""
        now = asyncio.get_running_loop().time()
        if self._swept.setdefault(run_id, now) + SWEEP_INTERVAL_SECONDS > now:
            return False
        self._swept[run_id] = now
        return True

    async def rescue(self, run_id: str, origin: Member) -> None:
        """Send the parcels of a server, also those whose forwarders died until their attempts were used."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await origin.call(lambda queue: queue.replay(run_id, where=DeadFilter(step=OUTBOX_STEP)))
                await self.forward(run_id, origin)
        except QueueError:
            return
        except TimeoutError:
            origin.is_away = True

    async def _claim(self, run_id: str, origin: Member, limit: int) -> Sequence[Lease]:
        grant = await origin.call(
            lambda queue: queue.claim(
                FORWARDER, run_id=run_id, limit=limit, lease=PARCEL_LEASE, steps=[OUTBOX_STEP]
            )
        )
        return grant.leases

    async def _complete(
        self, run_id: str, origin: Member, leases: Sequence[Lease], sent: Collection[str]
    ) -> None:
        """Complete the parcels with keys in `sent`, and the others once their owners have their tasks."""
        # By their ids: all leases of one claim may have the same token.
        contents = {
            lease.task_id: self._addressed(run_id, unpack(lease.task))
            for lease in leases
            if lease.task.key not in sent
        }
        away = await self._deliver(run_id, [one for mail in contents.values() for one in mail])

        def outcome(lease: Lease) -> Outcome:
            waits = any(owner in away for owner, _ in contents.get(lease.task_id, ()))
            return Release(lease, after=RETRY_AFTER) if waits else Done(lease)

        if leases:
            await origin.call(lambda queue: queue.settle([outcome(lease) for lease in leases]))

    def _addressed(self, run_id: str, tasks: Iterable[Task]) -> Mail:
        intake = Intake(run_id, RunSettings())
        return [(self._members.owner_of(intake.entry(task)), task) for task in tasks]

    async def _deliver(self, run_id: str, mail: Mail) -> set[Member]:
        """Enqueue tasks at their owners; return the owners that are away."""
        by_owner: dict[Member, list[Task]] = {}
        for owner, task in mail:
            by_owner.setdefault(owner, []).append(task)
        arrived = await asyncio.gather(
            *(self._enqueue(run_id, owner, tasks) for owner, tasks in by_owner.items())
        )
        return {owner for owner, is_there in zip(by_owner, arrived, strict=True) if not is_there}

    async def _enqueue(self, run_id: str, owner: Member, tasks: list[Task]) -> bool:
        if owner.is_away:
            return False
        try:
            async with asyncio.timeout(DELIVERY_TIMEOUT_SECONDS):
                await self._runs.on(owner, run_id, lambda queue: queue.enqueue(run_id, tasks))
        except UnknownRun:
            return True  # it was purged meanwhile, and its parcels with it
        except QueueError:
            return False
        except TimeoutError:
            owner.is_away = True
            return False
        return True

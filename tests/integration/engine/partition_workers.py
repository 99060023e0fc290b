"""Workers without a process of their own, which claim by the plan of a run, and a log of what they hold."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import QueueError, QueueUnavailable
from shoal.core.model import Done
from shoal.fleet.partitions.membership import Membership, members_of
from shoal.worker.partitions import PartitionShare, read_plan, topic_of

LOOK = 0.02  # seconds


class CuttableQueue:
    """A worker's connection to the queue, which can be cut, or held as when its process is stopped."""

    def __init__(self, queue):
        self._queue, self.is_cut = queue, False
        self.is_open = asyncio.Event()
        self.is_open.set()

    def __getattr__(self, verb):
        async def called(*given, **named):
            await self.is_open.wait()
            if self.is_cut:
                raise QueueUnavailable("the queue", "the connection was cut")
            return await getattr(self._queue, verb)(*given, **named)

        return called


class LeaseLog:
    """Knows who holds leases of which partition, and records every worker that gets one beside another."""

    def __init__(self, lease):
        self._lease = lease.total_seconds()
        self._ends = {}  # by partition, worker and task: when the lease is over, whatever happens
        self.violations, self.served = [], {}

    def claimed(self, worker, leases, asked_at):
        now = time.monotonic()
        for lease in leases:
            name = lease.task.partition
            self.served.setdefault(name, []).append(worker)
            for (partition, other, _), end in self._ends.items():
                if partition == name and other != worker and end > now:
                    self.violations.append((name, other, worker))
            self._ends[name, worker, lease.task_id] = asked_at + self._lease

    def settling(self, worker, leases):
        for lease in leases:
            self._ends.pop((lease.task.partition, worker, lease.task_id), None)


class PartitionWorker:
    """Serves its share of a run until the run is drained, or it is unplugged."""

    def __init__(self, name, queue, run, sharing, log, *, lease=timedelta(seconds=2), pace=0.01):
        self.name, self.queue_link = name, CuttableQueue(queue)
        self._run, self._log, self._lease, self._pace = run, log, lease, pace
        self._membership = Membership(self.queue_link, run.id, sharing)
        self._share = PartitionShare(self.queue_link, run.id, name, sharing)
        self._task = asyncio.create_task(self._work())

    async def unplug(self):
        """Die silently: what it holds stays leased."""
        self.queue_link.is_cut = True
        self._task.cancel()
        await asyncio.wait([self._task])

    def stop(self):
        """Do nothing from now on."""
        self.queue_link.is_open.clear()

    def wake(self):
        """Go on where it was stopped."""
        self.queue_link.is_open.set()

    async def done(self):
        await self._task

    async def _work(self):
        async with self._membership, self._membership.member(self.name):
            with suppress(QueueError):
                while not await self._claim():
                    await asyncio.sleep(self._pace)

    async def _claim(self):
        """Claim, hold and settle a few; return whether the run is drained."""
        asked_at = time.monotonic()
        grant = await self.queue_link.claim(
            self.name,
            run_id=self._run.id,
            limit=3,
            lease=self._lease,
            partitions=list(self._share.partitions),
            fence=self._share.fence,
        )
        self._log.claimed(self.name, grant.leases, asked_at)
        if grant.leases:
            await asyncio.sleep(self._pace)
            self._log.settling(self.name, grant.leases)
            await self.queue_link.settle([Done(lease) for lease in grant.leases])
        else:
            await asyncio.sleep(10 * self._pace)
            await self._share.refresh()
        return grant.drained


async def plan_of(queue, run):
    """Return the plan of a run, and who is alive."""
    notes = await queue.notes(topic_of(run.id))
    return read_plan(notes), members_of(notes)


async def until_planned(queue, run, names):
    """Wait until a plan is made for just these workers in which each partition has one; return how long.

    In seconds of a machine with time to spare: on a busy one each look takes longer, as all the rest does.
    """
    looks = 0
    async with asyncio.timeout(60):
        while True:
            plan, _ = await plan_of(queue, run)
            given = [holding.workers or [holding.coming] for holding in plan.holdings.values()]
            if set(filter(None, plan.seats)) == set(names) and all(set(team) <= set(names) for team in given):
                return looks * LOOK
            looks += 1
            await asyncio.sleep(LOOK)

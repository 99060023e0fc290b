"""Enqueue tasks, but no duplicate: each key of a (run, step) once, with `dedup` once for all runs."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.model import EnqueueReport
from shoal.queue.intake import QueuedTask
from shoal.queue.redis.outbox import Outboxes
from shoal.queue.redis.records import PackedTask, columns, pack_task
from shoal.queue.redis.runs import RunList
from shoal.queue.redis.server import RedisServer
from shoal.queue.redis.shards import homes_of, shard_of_key

BATCH = 500  # tasks of one call, so that it stays short


class RedisEnqueuer:
    """Puts tasks into the shards of their keys, and delivers those whose host is in another shard."""

    def __init__(self, server: RedisServer, runs: RunList, shards: int) -> None:
        self._server, self._runs, self._shards = server, runs, shards
        self._outboxes = Outboxes(server, self._deliver)

    async def enqueue(self, run_id: str, batch: Sequence[QueuedTask]) -> EnqueueReport:
        """Add tasks to a run; raises UnknownRun."""
        by_shard: dict[int, list[PackedTask]] = {}
        for one in map(pack_task, batch):
            by_shard.setdefault(shard_of_key(one, self._shards), []).append(one)
        calls = (self._put_on(shard, run_id, tasks) for shard, tasks in by_shard.items())
        replies = await asyncio.gather(*calls)
        await self.forward(
            run_id, [shard for shard, (_, sends) in zip(by_shard, replies, strict=True) if sends]
        )
        return sum((report for report, _ in replies), EnqueueReport())

    async def _put_on(
        self, shard: int, run_id: str, tasks: Sequence[PackedTask], at: str = ""
    ) -> tuple[EnqueueReport, bool]:
        """Enqueue tasks on a shard; return the report, and whether some belong to another shard."""
        homes = homes_of(tasks, self._shards)
        elements = (one.element for one in tasks)
        reply = await self._runs.once("enqueue", shard, run_id, columns(tasks, homes), at, *elements)
        added, known = map(int, reply)
        report = EnqueueReport(added=added, duplicate=len(tasks) - added - known, known=known)
        return report, any(home != shard for home in homes)

    async def forward(self, run_id: str, shards: Sequence[int], delivered: Sequence[int] = ()) -> None:
        """Deliver the outboxes of shards, and once more what was delivered a while ago."""
        if not shards and not delivered:
            return
        with suppress(QueueError):  # nothing is lost, and the next claim tries again
            await self._outboxes.forward(run_id, await self._runs.number(run_id), shards, delivered)

    async def forward_all(self) -> None:
        """Deliver every outbox of every run."""
        keys = [self._server.key(shard, "outboxes") for shard in range(self._shards)]
        sending = await asyncio.gather(*(self._server.command("SMEMBERS", key) for key in keys))
        if not any(sending):
            return
        by_run: dict[int, list[int]] = {}
        for shard, numbers in enumerate(sending):
            for number in numbers:
                by_run.setdefault(int(number), []).append(shard)
        ids = await self._runs.ids()
        calls = (
            self.forward(ids[number], shards, shards) for number, shards in by_run.items() if number in ids
        )
        await asyncio.gather(*calls)

    async def _deliver(self, target: int, run_id: str, at: str, tasks: Sequence[PackedTask]) -> bool:
        """Enqueue tasks that another shard has sent; return whether some have to be sent on."""
        try:
            report, sends = await self._put_on(target, run_id, tasks, at)
        except UnknownRun:
            return False  # purged in the meantime
        return report.added > 0 and sends


async def forget(server: RedisServer, shards: int, scraper: str) -> int:
    """Forget the keys that runs of a scraper have queued, and return their number."""

    async def forget_on(shard: int) -> int:
        count, numbers = await server.call("forget_known", shard, scraper)
        for number in numbers:
            while await server.call("clear_known", shard, number):
                pass
        return int(count)

    return sum(await asyncio.gather(*map(forget_on, range(shards))))

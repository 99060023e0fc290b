"""Work on Redis: tasks in, leases out, outcomes back."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.failures import error_text
from shoal.core.model import NOTHING, ZERO, EnqueueReport, Fate, Grant, Lease, Outcome, Release
from shoal.queue.clocks import ServerClocks
from shoal.queue.contract import DEFAULT_LEASE, Fence, OnInvalid, Tasks, WorkerBeat, WorkQueue
from shoal.queue.intake import QueuedTask, encode_item
from shoal.queue.redis.claim import RedisClaim, RedisClaimRequest
from shoal.queue.redis.outbox import Outboxes
from shoal.queue.redis.records import Parcel
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.redis.settle import ShardSettlement, settlements, shard_of_lease
from shoal.queue.redis.verbs.base import RedisQueueBase
from shoal.queue.redis.wire import columns, homes_of, micros, pack, parcel, shard_of_key, shard_of_worker
from shoal.queue.rules import check_claim, in_runs

BATCH = 500  # tasks of one call, so that it stays short
FIRST_PAGE = b"0"


class RedisWork(RedisQueueBase, WorkQueue):
    """Enqueues, claims and settles tasks."""

    def __init__(self, server: RedisServer, shards: int) -> None:
        super().__init__(server, shards)
        self._outboxes = Outboxes(server, self._deliver)
        self._clocks = ServerClocks()

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        intake = await self._intake(run_id, refresh=True)
        report = EnqueueReport()
        sending: asyncio.Task[EnqueueReport] | None = None
        # While the server stores one batch, the next is prepared.
        async for batch, invalid in intake.batches(tasks, on_invalid, BATCH * self._shards):
            report += EnqueueReport(invalid=invalid)
            if sending:
                report += await sending
            sending = asyncio.create_task(self._put(run_id, batch))
            await asyncio.sleep(0)
        return report + await sending if sending else report

    async def _put(self, run_id: str, batch: Sequence[QueuedTask]) -> EnqueueReport:
        by_shard: dict[int, list[Parcel]] = {}
        for one in map(parcel, batch):
            by_shard.setdefault(shard_of_key(one, self._shards), []).append(one)
        calls = (self._put_on(shard, run_id, parcels) for shard, parcels in by_shard.items())
        replies = await asyncio.gather(*calls)
        await self._forward(
            run_id, [shard for shard, (_, sends) in zip(by_shard, replies, strict=True) if sends]
        )
        return sum((report for report, _ in replies), EnqueueReport())

    async def _put_on(
        self, shard: int, run_id: str, parcels: Sequence[Parcel], at: str = ""
    ) -> tuple[EnqueueReport, bool]:
        """Enqueue tasks on a shard; return the report, and whether some belong to another shard."""
        homes = homes_of(parcels, self._shards)
        elements = (one.element for one in parcels)
        reply = await self._once("enqueue", shard, run_id, columns(parcels, homes), at, *elements)
        added, known = map(int, reply)
        report = EnqueueReport(added=added, duplicate=len(parcels) - added - known, known=known)
        return report, any(home != shard for home in homes)

    async def _forward(self, run_id: str, shards: Sequence[int], delivered: Sequence[int] = ()) -> None:
        """Deliver the outboxes of shards, and once more what was delivered a while ago."""
        if not shards and not delivered:
            return
        with suppress(QueueError):  # nothing is lost, and the next claim tries again
            await self._outboxes.forward(run_id, await self._number(run_id), shards, delivered)

    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        fence: Fence | None = None,
        lead: timedelta = ZERO,
    ) -> Grant:
        check_claim(limit, lease, fence, lead)
        # On a cluster, only one shard has the note.
        in_script = fence if self._shards == 1 else None
        request = RedisClaimRequest(worker_id, run_id, limit, lease, steps, partitions, in_script, lead)
        claim = RedisClaim(request, self._shards, self._claim, self._forward, self._clocks)
        if fence is None or in_script:
            return await claim.grant()
        return await self._claim_fenced(claim, fence)

    async def _claim_fenced(self, claim: RedisClaim, fence: Fence) -> Grant:
        """Claim on shards that cannot see the note.

        No stamp is used twice: a note that is valid afterwards was valid all the time. Else the tasks are
        released.
        """
        if not await self._notes.is_valid(fence):
            return Grant(outdated=True)
        grant = await claim.grant()
        is_valid = False
        try:
            is_valid = await self._notes.is_valid(fence)
        finally:
            if not is_valid:
                await self.settle([Release(lease, asked=False) for lease in grant.leases])
        return grant if is_valid else Grant(outdated=True)

    async def _claim(self, shard: int, leases: bool, run_id: str, *args: Argument) -> Any:
        verb = self._once if leases else self._call
        return await verb("claim", shard, run_id, *args)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        fates = [Fate.STALE] * len(outcomes)
        intakes = {
            run_id: await self._intake_or_default(run_id) for run_id in {one.lease.run_id for one in outcomes}
        }
        chains = settlements(outcomes, list(in_runs(outcomes)), intakes, self._shards)
        await asyncio.gather(*(self._settle(chain, fates) for chain in chains))
        return fates

    async def _settle(self, chain: Sequence[ShardSettlement], fates: list[Fate]) -> None:
        """Make the calls of a chain one after the other."""
        for call in chain:
            reply = await self._server.once("settle", call.shard, *call.arguments())
            # The number of the accepted outcomes, if that is all of them; else their positions.
            accepted = range(1, reply + 1) if isinstance(reply, int) else reply
            for number in accepted:
                fates[call.positions[number - 1]] = Fate.ACCEPTED
            if call.sends:
                await self._forward(call.run_id, [call.shard])

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        fates = [Fate.STALE] * len(leases)
        groups: dict[tuple[str, int], list[int]] = {}
        for position, one in enumerate(leases):
            groups.setdefault((one.run_id, shard_of_lease(one, self._shards)), []).append(position)
        for (run_id, shard), positions in groups.items():
            ids = b"".join(bytes.fromhex(leases[position].task_id) for position in positions)
            tokens = pack([leases[position].token for position in positions])
            for number in await self._server.call("extend", shard, run_id, ids, tokens, micros(lease)):
                fates[positions[number - 1]] = Fate.ACCEPTED
        return fates

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        check_claim(1, lease)
        calls = (self._extend_worker(shard, worker_id, micros(lease)) for shard in range(self._shards))
        return sum(await asyncio.gather(*calls))

    async def _extend_worker(self, shard: int, worker_id: str, lease: int) -> int:
        tokens: set[int] = set()  # a page may repeat a lease of an earlier one
        # Every run that has a lease is in this list.
        for number in await self._server.command("ZRANGE", self._server.key(shard, "overdue"), 0, -1):
            cursor = FIRST_PAGE
            while True:
                extended, cursor = await self._server.call(
                    "extend_worker", shard, worker_id, number, cursor, lease
                )
                tokens.update(extended)
                if cursor == FIRST_PAGE:
                    break
        return len(tokens)

    async def reclaim(self) -> int:
        replies = await asyncio.gather(*map(self._reclaim, range(self._shards)))
        if self._shards > 1:
            await self._forward_all()
        if any(left for _, left in replies):
            await self._runs.finish_interrupted()
        return sum(count for count, _ in replies)

    async def _forward_all(self) -> None:
        """Deliver every outbox of every run."""
        keys = [self._server.key(shard, "sending") for shard in range(self._shards)]
        sending = await asyncio.gather(*(self._server.command("SMEMBERS", key) for key in keys))
        if not any(sending):
            return
        by_run: dict[int, list[int]] = {}
        for shard, numbers in enumerate(sending):
            for number in numbers:
                by_run.setdefault(int(number), []).append(shard)
        ids = await self._runs.ids()
        calls = (
            self._forward(ids[number], shards, shards) for number, shards in by_run.items() if number in ids
        )
        await asyncio.gather(*calls)

    async def _reclaim(self, shard: int) -> tuple[int, int]:
        count, more, left = 0, 1, 0
        while more:
            lost, more, left = await self._server.once("reclaim", shard)
            count += int(lost)
        return count, int(left)

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        how = (error_text(reason), *once)
        calls = (self._abandon(shard, worker_id, how) for shard in range(self._shards))
        return sum(await asyncio.gather(*calls))

    async def _abandon(self, shard: int, worker_id: str, how: Sequence[str]) -> int:
        count = 0
        # Every run that has a lease is in this list.
        for number in await self._server.command("ZRANGE", self._server.key(shard, "overdue"), 0, -1):
            cursor = FIRST_PAGE
            while True:
                ended, cursor = await self._server.once("abandon", shard, worker_id, number, cursor, *how)
                count += int(ended)
                if cursor == FIRST_PAGE:
                    break
        return count

    async def _deliver(self, target: int, run_id: str, at: str, parcels: Sequence[Parcel]) -> bool:
        """Enqueue tasks that another shard has sent; return whether some have to be sent on."""
        try:
            report, sends = await self._put_on(target, run_id, parcels, at)
        except UnknownRun:
            return False  # purged in the meantime
        return report.added > 0 and sends

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        await self.beat_together(run_id, [WorkerBeat(worker_id, state, info)])

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        by_shard: dict[int, list[Argument]] = {}
        for beat in beats:
            values = (beat.worker_id, beat.state, encode_item(dict(beat.info)))
            by_shard.setdefault(shard_of_worker(beat.worker_id, self._shards), []).extend(values)
        for shard, values_of_all in by_shard.items():
            await self._call("beat", shard, run_id, *values_of_all)

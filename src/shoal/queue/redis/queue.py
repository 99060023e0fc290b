"""The queue on Redis: each verb of the contract is one script call on each shard that it concerns."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self, Unpack

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.failures import error_text
from shoal.core.model import (
    NOTHING,
    SECOND,
    ZERO,
    DeadFilter,
    DeadLetter,
    Durability,
    EnqueueReport,
    ExpiredTask,
    Fate,
    Grant,
    HostStatus,
    Lease,
    Note,
    Outcome,
    Release,
    Run,
    RunSettings,
    RunState,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.contract import (
    DEFAULT_LEASE,
    EditFate,
    Fence,
    LetterEdit,
    OnInvalid,
    Queue,
    RunLimits,
    StoreSize,
    Tasks,
)
from shoal.queue.cursors import check_keys
from shoal.queue.intake import Intake, QueuedTask, encode_item, ids_of
from shoal.queue.redis.claim import RedisClaim, RedisClaimRequest, ShardClocks
from shoal.queue.redis.durability import durability, store_size
from shoal.queue.redis.migrate import SHARDS_OF_A_CLUSTER, migrate
from shoal.queue.redis.notes import RedisNotes
from shoal.queue.redis.outbox import Outboxes
from shoal.queue.redis.read import RedisReader, stats_from
from shoal.queue.redis.runs import RunList
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.redis.settle import ShardSettlement, edit_letter, settlements, shard_of_lease
from shoal.queue.redis.task_list import RedisTaskList
from shoal.queue.redis.wire import (
    Parcel,
    columns,
    homes_of,
    micros,
    moment,
    pack,
    parcel,
    run_from,
    shard_of_host,
    shard_of_key,
)
from shoal.queue.rules import (
    check_claim,
    check_new_notes,
    check_notes,
    check_run,
    check_trim,
    free_run_id,
    in_runs,
    known_ids,
)

RETRY_TIMEOUT = 30 * SECOND
BATCH = 500  # tasks of one call, so that it stays short
FIRST_PAGE = b"0"


def no_skew() -> timedelta:
    """Return the offset to add to the server's clock; only tests pass another function."""
    return ZERO


class RedisQueue(Queue):
    """A queue in a Redis server or cluster, for any number of workers on any number of machines."""

    def __init__(self, server: RedisServer, shards: int) -> None:
        self._server, self._shards = server, shards
        self._runs = RunList(server, shards)
        self._reader = RedisReader(server, shards)
        self._notes = RedisNotes(server, shards)
        self._outboxes = Outboxes(server, self._deliver)
        self._clocks = ShardClocks()
        self._intakes: dict[str, Intake] = {}

    @classmethod
    async def open(
        cls, url: str, *, patience: timedelta = RETRY_TIMEOUT, skew: Callable[[], timedelta] = no_skew
    ) -> Self:
        """Connect and check the store; raises QueueUnavailable when `patience` is over."""
        server = RedisServer(url, patience=patience, skew=skew)
        shards = SHARDS_OF_A_CLUSTER if server.is_cluster else 1
        await server.open()
        try:
            await migrate(server, shards)
        except BaseException:
            await server.close()
            raise
        return cls(server, shards)

    async def close(self) -> None:
        await self._server.close()

    async def migrate(self) -> int:
        return await migrate(self._server, self._shards)

    async def durability(self) -> Durability:
        return await durability(self._server, self._server.one_shard_per_node(self._shards))

    async def size(self) -> StoreSize:
        return await store_size(self._server, self._server.one_shard_per_node(self._shards))

    # Runs

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        if run_id is None:
            run_id = await free_run_id(moment(await self._now()), self._runs.has)
        self._intakes.pop(run_id, None)
        return await self._runs.start(scraper, settings, run_id)

    async def run(self, run_id: str) -> Run:
        return run_from(await self._runs.fields(run_id))

    async def runs(self) -> Sequence[Run]:
        return await self._runs.every()

    async def pause(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return await self._runs.steer(run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return await self._runs.steer(run_id, RunState.CANCELLED)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        return await self._runs.change(run_id, limits)

    async def purge(self, run_id: str) -> None:
        self._intakes.pop(run_id, None)
        await self._runs.purge(run_id)

    # Work

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

    async def forget(self, scraper: str) -> int:
        return sum(await asyncio.gather(*(self._forget(shard, scraper) for shard in range(self._shards))))

    async def _forget(self, shard: int, scraper: str) -> int:
        count, numbers = await self._server.call("forget_known", shard, scraper)
        for number in numbers:
            while await self._server.call("clear_known", shard, number):
                pass
        return int(count)

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
    ) -> Grant:
        check_claim(limit, lease, fence)
        # On a cluster, only one shard has the note.
        in_script = fence if self._shards == 1 else None
        request = RedisClaimRequest(worker_id, run_id, limit, lease, steps, partitions, in_script)
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
        if await self._notes.is_valid(fence):
            return grant
        await self.settle([Release(lease, asked=False) for lease in grant.leases])
        return Grant(outdated=True)

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
            for number in await self._server.once("settle", call.shard, *call.arguments()):
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

    async def _once(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        return await self._with_known_run(self._server.once, script, shard, run_id, *args)

    async def _call(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        return await self._with_known_run(self._server.call, script, shard, run_id, *args)

    async def _with_known_run(self, verb: Any, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        try:
            return await verb(script, shard, run_id, *args)
        except UnknownRun:
            await self._runs.introduce(run_id, shard)
        return await verb(script, shard, run_id, *args)

    async def _intake(self, run_id: str, *, refresh: bool = False) -> Intake:
        if refresh or run_id not in self._intakes:
            run = await self.run(run_id)
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]

    async def _intake_or_default(self, run_id: str) -> Intake:
        """Return the intake of a run, also of a purged one: its outcomes are stale, not errors."""
        try:
            return await self._intake(run_id)
        except UnknownRun:
            return Intake(run_id, RunSettings())

    async def _number(self, run_id: str) -> int:
        return int((await self._runs.fields(run_id))["number"])

    async def _now(self) -> int:
        return int(await self._server.call("clock", 0))

    # Reports

    async def stats(self, run_id: str) -> Stats:
        calls = (self._call("stats", shard, run_id) for shard in range(self._shards))
        return stats_from(await asyncio.gather(*calls))

    async def items(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredItem]:
        async for item in self._reader.items(await self._number(run_id), step, after):
            yield item

    async def rejects(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredReject]:
        async for reject in self._reader.rejects(await self._number(run_id), step, after):
            yield reject

    async def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        number = await self._number(run_id)
        found = (
            self._reader.dead(number, where, after)
            if ids is None
            else self._reader.named_letters(number, known_ids(ids), where, after)
        )
        async for letter in found:
            yield letter

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        async for task in self._reader.expired(await self._number(run_id), after):
            yield task

    async def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        check_keys(keys, after)
        number = await self._number(run_id)
        if keys is None:
            found = RedisTaskList(self._server, self._shards, number).tasks(step, states, after)
        else:
            ids = ids_of(await self.run(run_id), step, keys, (await self.stats(run_id)).steps)
            listing = RedisTaskList(self._server, self._shards, number, ids)
            found = listing.named(ids, states, has_unlisted=await self._has_unlisted_tasks(number))
        async for status in found:
            yield status

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        return await RedisTaskList(self._server, self._shards, await self._number(run_id)).entered(
            known_ids(ids)
        )

    async def _has_unlisted_tasks(self, number: int) -> bool:
        """Return whether tasks of a run may be where they cannot be listed, as in a broker."""
        return False

    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_dead(run_id, "replay", ids, where)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._apply_to_dead(run_id, "drop", ids, where)

    async def _apply_to_dead(
        self, run_id: str, verb: str, ids: Sequence[str] | None, where: DeadFilter
    ) -> int:
        """Replay or drop dead letters, a page at a time."""
        number, count = await self._number(run_id), 0
        for shard in range(self._shards):
            async for page in self._reader.select_dead(shard, number, ids, where):
                packed = b"".join(map(bytes.fromhex, page))
                count += int(await self._once("dead", shard, run_id, verb, packed))
        return count

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        number = await self._number(run_id)
        pairs = zip(edits, (await self._intake(run_id, refresh=True)).edited(edits), strict=True)
        return [await edit_letter(self._once, self._reader, number, run_id, *pair) for pair in pairs]

    # Hosts and workers

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        number = None if run_id is None else await self._number(run_id)
        async for status in self._reader.hosts(number, after):
            yield status

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "pause", micros(duration))

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "slow", micros(delay))

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        shard = shard_of_host(worker_id, self._shards)  # any shard, as long as it is always the same
        await self._call("beat", shard, run_id, worker_id, state, encode_item(dict(info)))

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        ids = [run.id for run in await self.runs()] if run_id is None else [run_id]
        now = await self._now()
        found: list[WorkerStatus] = []
        for one in ids:
            try:
                found += await self._reader.workers(await self._number(one), one, now)
            except UnknownRun:
                if run_id is not None:
                    raise
                # Purged since the runs were listed.
        return found

    # Notes

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        check_notes(topic, keys or ())
        return await self._notes.read(topic, keys)

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        check_new_notes(topic, values, ttl)
        await self._notes.write(topic, values, ttl)

    async def swap_note(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        *,
        stamp: int | None,
        ttl: timedelta | None = None,
    ) -> Note | None:
        check_new_notes(topic, {key: value}, ttl)
        return await self._notes.swap(topic, key, value, stamp, ttl)

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        check_trim(topic, max_bytes)
        return await self._notes.trim(topic, max_bytes)

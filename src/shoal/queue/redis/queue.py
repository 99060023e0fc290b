"""The Redis backend: a verb is one script call on each shard that it concerns."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from shoal.core.errors import UnknownRun
from shoal.core.model import (
    ZERO,
    DeadFilter,
    DeadLetter,
    Durability,
    EnqueueReport,
    ExpiredTask,
    Fate,
    Grant,
    HostStatus,
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
from shoal.queue.contract import Evictions, Queue, StoreSize
from shoal.queue.encoding import duration, micros, moment
from shoal.queue.intake import PreparedOutcome, QueuedTask
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.redis.claim import RedisClaim, ShardClocks
from shoal.queue.redis.dead_letters import DeadLetterReader, apply_to_letters, edit_letter
from shoal.queue.redis.durability import durability, evictions, store_size
from shoal.queue.redis.enqueue import BATCH, RedisEnqueuer, forget
from shoal.queue.redis.leases import RedisLeases, reclaim
from shoal.queue.redis.migrate import migrate, version
from shoal.queue.redis.notes import RedisNotes
from shoal.queue.redis.records import run_from
from shoal.queue.redis.reports import read_stats
from shoal.queue.redis.runs import HOME, RunList
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.redis.settle import settle
from shoal.queue.redis.shards import SHARDS_OF_A_CLUSTER, shard_of_host, shard_of_worker
from shoal.queue.redis.task_list import RedisTaskList
from shoal.queue.requests import ClaimRequest, EditFate, Fence, LetterEdit
from shoal.queue.schema import SchemaVersions


def no_skew() -> timedelta:
    """Return the offset to add to the server's clock; only tests pass another function."""
    return ZERO


class RedisQueue(RedisLeases, RedisNotes, Queue):
    """A queue in a Redis server or cluster, for any number of workers on any number of machines."""

    def __init__(self, server: RedisServer, shards: int, runs: RunList | None = None) -> None:
        super().__init__()
        self._server, self._shards = server, shards
        self._runs = runs or RunList(server, shards)
        self._enqueuer = RedisEnqueuer(server, self._runs, shards)
        self._reader = DeadLetterReader(server, shards)
        self._clocks = ShardClocks()
        self.enqueue_batch = BATCH * shards

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

    # Tasks in, leases out, outcomes back

    async def _enqueue(self, run_id: str, tasks: Sequence[QueuedTask]) -> EnqueueReport:
        return await self._enqueuer.enqueue(run_id, tasks)

    async def _claim(self, request: ClaimRequest) -> Grant:
        if request.fence is None or self._shards == 1:
            return await self._claim_unfenced(request)
        return await self._claim_fenced(request._replace(fence=None), request.fence)

    async def _claim_unfenced(self, request: ClaimRequest) -> Grant:
        claim = RedisClaim(request, self._shards, self._run_claim, self._enqueuer.forward, self._clocks)
        return await claim.grant()

    async def _claim_fenced(self, request: ClaimRequest, fence: Fence) -> Grant:
        """Claim on a cluster, where only one shard has the note.

        No stamp is used twice: a note that is valid afterwards was valid all the time. Else the tasks are
        released.
        """
        if not await self.is_valid(fence):
            return Grant(outdated=True)
        grant = await self._claim_unfenced(request)
        is_valid = False
        try:
            is_valid = await self.is_valid(fence)
        finally:
            if not is_valid:
                await self.settle([Release(lease, asked=False) for lease in grant.leases])
        return grant if is_valid else Grant(outdated=True)

    async def _run_claim(self, shard: int, leases: bool, run_id: str, *args: Argument) -> Any:
        verb = self._runs.once if leases else self._runs.call
        return await verb("claim", shard, run_id, *args)

    async def _settle(self, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
        return await settle(self._server, outcomes, self._shards, self._enqueuer.forward)

    async def reclaim(self) -> int:
        calls = (reclaim(self._server, shard) for shard in range(self._shards))
        replies = await asyncio.gather(*calls)
        if self._shards > 1:
            await self._enqueuer.forward_all()
        if any(left for _, left in replies):
            await self._runs.finish_interrupted()
        return sum(count for count, _ in replies)

    async def _beat(self, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
        by_shard: dict[int, list[Argument]] = {}
        for beat in beats:
            by_shard.setdefault(shard_of_worker(beat[0], self._shards), []).extend(beat)
        for shard, words in by_shard.items():
            await self._runs.call("beat", shard, run_id, *words)

    # Runs

    async def _start_run(self, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
        return await self._runs.start(scraper, settings, run_id)

    async def now(self) -> datetime:
        return moment(int(await self._server.call("clock", HOME)))

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        return await self._runs.steer(run_id, state, reason)

    async def _change_run(self, run: Run, settings: RunSettings) -> Run:
        return await self._runs.change(run, settings)

    async def _purge(self, run_id: str) -> None:
        await self._runs.purge(run_id)

    async def forget(self, scraper: str) -> int:
        return await forget(self._server, self._shards, scraper)

    async def run(self, run_id: str) -> Run:
        return run_from(await self._runs.fields(run_id))

    async def runs(self) -> Sequence[Run]:
        return await self._runs.every()

    async def stats(self, run_id: str) -> Stats:
        calls = (self._runs.call("stats", shard, run_id) for shard in range(self._shards))
        return read_stats(await asyncio.gather(*calls))

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        ids = [run.id for run in await self.runs()] if run_id is None else [run_id]
        now = int(await self._server.call("clock", HOME))
        found: list[WorkerStatus] = []
        for one in ids:
            try:
                found += await self._reader.workers(await self._runs.number(one), one, now)
            except UnknownRun:
                if run_id is not None:
                    raise
                # Purged since the runs were listed.
        return found

    # Hosts

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "pause", micros(duration))

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._server.call("host", shard_of_host(host, self._shards), host, "slow", micros(delay))

    async def take_turn(self, host: str, gap: timedelta) -> timedelta:
        shard = shard_of_host(host, self._shards)
        return duration(int(await self._server.call("host", shard, host, "turn", micros(gap))))

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        number = None if run_id is None else await self._runs.number(run_id)
        async for status in self._reader.hosts(number, after):
            yield status

    # Dead letters

    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int:
        return await apply_to_letters(self._runs, self._reader, run_id, "replay", ids, where, micros(delay))

    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int:
        return await apply_to_letters(self._runs, self._reader, run_id, "drop", ids, where)

    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
        return [await edit_letter(self._runs, self._reader, run_id, *edit) for edit in edits]

    async def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        number = await self._runs.number(run_id)
        if ids is None:
            found = self._reader.dead(number, where, after)
        else:
            found = self._reader.named_letters(number, ids, where, after)
        async for letter in found:
            yield letter

    # Lists

    async def items(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredItem]:
        async for item in self._reader.items(await self._runs.number(run_id), step, after):
            yield item

    async def rejects(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredReject]:
        async for reject in self._reader.rejects(await self._runs.number(run_id), step, after):
            yield reject

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        async for task in self._reader.expired(await self._runs.number(run_id), after):
            yield task

    async def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]:
        listing = RedisTaskList(self._server, self._shards, await self._runs.number(run_id))
        async for status in listing.tasks(step, states, after):
            yield status

    async def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        number = await self._runs.number(run_id)
        listing = RedisTaskList(self._server, self._shards, number, ids)
        has_unlisted = await self._has_unlisted_tasks(number)
        async for status in listing.named(ids, states, has_unlisted=has_unlisted):
            yield status

    async def _has_unlisted_tasks(self, number: int) -> bool:
        """Return whether tasks of a run may be where they cannot be listed, as in a broker."""
        return False

    async def _entered(self, run_id: str, ids: Sequence[bytes]) -> set[str]:
        listing = RedisTaskList(self._server, self._shards, await self._runs.number(run_id))
        return await listing.entered(ids)

    # The store

    async def durability(self) -> Durability:
        return await durability(self._server, self._server.one_shard_per_node(self._shards))

    async def evictions(self) -> Evictions | None:
        return await evictions(self._server, self._server.one_shard_per_node(self._shards))

    async def size(self) -> StoreSize:
        return await store_size(self._server, self._server.one_shard_per_node(self._shards))


async def open_address(url: str, patience: timedelta) -> RedisQueue:
    """Open the queue at an address."""
    return await RedisQueue.open(url, patience=patience)


async def read_schema(url: str, patience: timedelta) -> SchemaVersions:
    """Read the version of the schema, and migrate nothing."""
    return await version(RedisServer(url, patience=patience, skew=no_skew))

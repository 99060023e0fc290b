"""Shares the state of proxies between workers through notes, every few seconds and after a failure.

Three topics for each run: consecutive failures per worker, which are added up; what is benched, in notes that
expire with the ban; and the statistics of each worker per proxy.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import MINUTE, Note
from shoal.core.tasks import wait_for_event
from shoal.fetch.proxies.health import ProxyFault, ProxyHealth
from shoal.fetch.proxies.pool import ProxyPool
from shoal.fetch.shared_state import SharedState

SYNC_INTERVAL_SECONDS = 3.0  # between two exchanges
BATCH_DELAY = timedelta(seconds=0.03)  # in which failures are batched
STALE = timedelta(seconds=15)  # a worker that has published nothing for this long counts as gone
RECENT = timedelta(seconds=30)  # a proxy that served another worker since then is not dead for all
STATS_TTL = timedelta(days=1)
MAX_SHOWN = 1_000  # with more proxies, only those that were used are published
# The kinds of topics, as they are stored.
TROUBLE, BENCHED, STATS = "trouble", "benched", "deeds"
log = logging.getLogger("shoal.proxies")
T = TypeVar("T")


class ProxyStats(msgspec.Struct, frozen=True, array_like=True):
    """What one worker has done through one proxy."""

    pages: int = 0
    faults: dict[str, int] = {}
    streak: int = 0
    seconds: float | None = None
    last_fault: str | None = None
    since_page: float | None = None  # seconds
    is_mine: bool = False  # in the slice of this worker

    @property
    def success(self) -> float | None:
        """The part of its requests that returned a page; None without a request."""
        return success_of(self.pages, self.faults)


def success_of(pages: int, faults: Mapping[str, int]) -> float | None:
    """Return the part of the requests through a proxy that returned a page; None without a request."""
    requests = pages + sum(faults.values())
    return pages / requests if requests else None


class ProxyBan(msgspec.Struct, frozen=True, array_like=True):
    """Why a unit is benched, and for how many seconds."""

    fault: str
    seconds: float
    failures: int


def topic(what: str, run_id: str) -> str:
    """Return the topic of a run's proxies: TROUBLE, BENCHED or STATS."""
    return f"proxies {what} {run_id}"


class ProxySync:
    """Publishes this worker's proxy records to the fleet, and applies the fleet's to the pool."""

    def __init__(self, notes: SharedState, run_id: str, me: str, pool: ProxyPool, *, group: str = "") -> None:
        """Share a pool of a run with the pools of the same group in other workers."""
        self._trouble = topic(TROUBLE, f"{run_id} {group}" if group else run_id)
        self._notes, self._run_id, self._me, self._pool = notes, run_id, me, pool
        self._published: bytes | None = None
        self._published_at = float("-inf")
        self._stats_published: bytes | None = None
        self._stats_at = float("-inf")
        if pool.rules.share == "slice":
            pool.await_slice()

    async def run(self) -> None:
        """Exchange state until cancelled."""
        while True:
            with suppress(ShoalError):
                await self.exchange()
            await wait_for_event(self._pool.has_failures, SYNC_INTERVAL_SECONDS)
            await asyncio.sleep(BATCH_DELAY.total_seconds())

    async def exchange(self) -> None:
        """Exchange state once."""
        pool = self._pool
        pool.has_failures.clear()
        unpublished, condemned, mine = pool.unpublished(), pool.pop_condemned(), pool.failure_counts()
        try:
            others = await self._publish_failures(mine)
            total = Counter(mine)
            for theirs in others.values():
                total.update(theirs)
            failing = {unit: pool.reason(unit) for unit in mine if total[unit] >= pool.rules.threshold}
            benched = await self._read_bans()
            new = {unit: fault for unit, fault in (failing | condemned).items() if unit not in benched}
            if new:
                await self._bench_units(new, total, others)
                benched = await self._read_bans()
            pool.bench(benched)
            await self.publish_stats()
        finally:
            pool.mark_published(unpublished)

    async def publish_stats(self, *, now: bool = False) -> None:
        """Publish the statistics, unless that was just done or nothing has changed."""
        moment = time.monotonic()
        if not now and moment - self._stats_at < SYNC_INTERVAL_SECONDS:
            return
        written = msgspec.msgpack.encode(self._stats())
        if written != self._stats_published:
            await self._notes.write_notes(topic(STATS, self._run_id), {self._me: written}, ttl=STATS_TTL)
            self._stats_published = written
        self._stats_at = moment

    def log_results(self) -> None:
        """Log how many requests through each proxy have succeeded in this worker."""
        for name, stats in self._stats().items():
            if stats.success is not None:
                faults = ", ".join(f"{count} {fault}" for fault, count in stats.faults.items())
                seen = f" {faults}" if faults else ""
                log.info("Proxy %s: %.0f%% of requests succeeded.%s", name, 100 * stats.success, seen)

    async def _publish_failures(self, mine: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Publish what has failed here, and return what has failed elsewhere."""
        written, now = msgspec.msgpack.encode(mine), time.monotonic()
        if written != self._published or now - self._published_at > STALE.total_seconds() / 3:
            await self._notes.write_notes(self._trouble, {self._me: written}, ttl=MINUTE)
            self._published, self._published_at = written, now
        read_at = self._pool.clock()
        found = await self._notes.notes(self._trouble)
        alive = sorted({self._me, *(name for name, note in found.items() if note.age < STALE)})
        if self._pool.rules.share == "slice":
            self._pool.share(alive.index(self._me), len(alive), read_at=read_at)
        others = [name for name in alive if name != self._me and name in found]
        return {name: _read(found[name], dict[str, int]) or {} for name in others}

    async def _read_bans(self) -> dict[str, float]:
        return left_of(await self._notes.notes(topic(BENCHED, self._run_id)))

    async def _bench_units(
        self, units: Mapping[str, ProxyFault], total: Counter[str], others: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Bench units for the whole fleet; but a proxy that serves other workers, for this one alone."""
        duration = self._pool.rules.duration
        elsewhere = await self._served_elsewhere(units, others)
        for unit, fault in units.items():
            if unit in elsewhere:
                continue
            ban = ProxyBan(fault, duration.total_seconds(), max(1, total[unit]))
            written = msgspec.msgpack.encode(ban)
            where = topic(BENCHED, self._run_id)
            if await self._notes.swap_note(where, unit, written, stamp=None, ttl=duration):
                log.info("Proxy %s is benched for %g s: %s", unit, ban.seconds, fault)
        self._pool.bench({unit: duration.total_seconds() for unit in elsewhere})

    async def _served_elsewhere(
        self, units: Mapping[str, ProxyFault], others: Mapping[str, Mapping[str, int]]
    ) -> set[str]:
        """Return the proxies that work for other workers: maybe only this machine is blocked."""
        found = await self._notes.notes(topic(STATS, self._run_id), list(others)) if others else {}
        served: set[str] = set()
        for name, note in found.items():
            stats = read_stats(note)
            served |= {
                unit
                for unit in units
                if unit in stats and unit not in others[name] and _is_recent(stats[unit], note.age)
            }
        return served

    def _stats(self) -> dict[str, ProxyStats]:
        records = list(self._pool.records())
        shown = records if len(records) <= MAX_SHOWN else [one for one in records if one.used]
        mine, now = self._pool.mine, time.monotonic()
        return {one.proxy.name: _stats_of(one, now, is_mine=one.proxy.name in mine) for one in shown}


def read_stats(note: Note) -> dict[str, ProxyStats]:
    """Read the statistics of one worker; empty where they cannot be read."""
    return _read(note, dict[str, ProxyStats]) or {}


def read_ban(note: Note) -> ProxyBan | None:
    """Read why a unit is benched."""
    return _read(note, ProxyBan)


def left_of(notes: Mapping[str, Note]) -> dict[str, float]:
    """Return the seconds for which each unit stays benched."""
    found = {}
    for unit, note in notes.items():
        ban = read_ban(note)
        left = ban.seconds - note.age.total_seconds() if ban else 0.0
        if left > 0:
            found[unit] = left
    return found


def _stats_of(health: ProxyHealth, now: float, *, is_mine: bool) -> ProxyStats:
    since = None if health.last_page is None else round(now - health.last_page, 1)
    seconds = None if health.seconds is None else round(health.seconds, 4)
    return ProxyStats(
        health.pages,
        {str(fault): count for fault, count in health.faults.items()},
        health.streak,
        seconds,
        health.last_fault,
        since,
        is_mine,
    )


def _is_recent(stats: ProxyStats, age: timedelta) -> bool:
    if stats.since_page is None or stats.streak or age > STALE:
        return False
    return timedelta(seconds=stats.since_page) + age < RECENT


def _read(note: Note, kind: type[T]) -> T | None:
    try:
        return msgspec.msgpack.decode(note.value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None

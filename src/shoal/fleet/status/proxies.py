"""The proxies of a run as its workers report them, and whether they are reachable from here."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.http import Proxy
from shoal.core.proxies import ProxyRules, endpoint
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.source import ProxySource
from shoal.fetch.proxies.sync import (
    BENCHED,
    STATS,
    ProxyBan,
    ProxyStats,
    left_of,
    read_ban,
    read_stats,
    success_of,
    topic,
)
from shoal.fleet.status.at_work import is_at_work
from shoal.fleet.status.rows.fetchers import ProxyRow
from shoal.queue.contract import Queue

MAX_CONCURRENT = 50
CONNECT_TIMEOUT = timedelta(seconds=5)


class ProxyState(StrEnum):
    """What a proxy is good for, as the whole fleet reports it."""

    GOOD = "good"
    UNTRIED = "untried"
    # The others return no pages.
    BENCHED = "benched"  # for all hosts, for a while
    BLOCKED = "blocked"  # by hosts
    FAILING = "failing"


TROUBLED = (ProxyState.BENCHED, ProxyState.BLOCKED, ProxyState.FAILING)


class ProxyStatus(msgspec.Struct):
    """A proxy as reported by the whole fleet."""

    name: str
    pages: int = 0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    seconds: float | None = None  # average time per page
    last_fault: str | None = None
    benched: ProxyBan | None = None
    back_in: float | None = None  # seconds
    blocked_by: list[str] = msgspec.field(default_factory=list)  # hosts it is benched for
    workers: list[str] = msgspec.field(
        default_factory=list
    )  # at work that may use it: share=slice divides them

    @property
    def state(self) -> ProxyState:
        """The proxy's state in one word."""
        if self.benched:
            return ProxyState.BENCHED
        if not self.pages and self.faults:
            return ProxyState.BLOCKED if self.blocked_by else ProxyState.FAILING
        return ProxyState.GOOD if self.pages else ProxyState.UNTRIED

    @property
    def success(self) -> float | None:
        """The part of its requests that returned a page; None without a request."""
        return success_of(self.pages, self.faults)

    def add(self, stats: ProxyStats) -> None:
        """Add the statistics of one worker."""
        pages = self.pages + stats.pages
        if stats.seconds is not None and pages:
            before = (self.seconds or 0.0) * self.pages
            self.seconds = (before + stats.seconds * stats.pages) / pages
        self.pages = pages
        for fault, count in stats.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count
        self.last_fault = stats.last_fault or self.last_fault

    def row(self) -> ProxyRow:
        """Return the proxy as `shoal proxies --json` reports it."""
        return ProxyRow.of(
            self,
            proxy=self.name,
            **{str(fault): self.faults.get(fault, 0) for fault in ProxyFault},
            seconds=round(self.seconds, 3) if self.seconds is not None else None,
            benched_for=self.benched.fault if self.benched else None,
            back_in_seconds=round(self.back_in, 1) if self.back_in is not None else None,
            blocked_by=sorted(self.blocked_by),
            success=round(self.success, 3) if self.success is not None else None,
            workers=sorted(self.workers),
        )


async def proxies(queue: Queue, run_id: str) -> list[ProxyStatus]:
    """Return the proxies of a run by name, with the statistics of all its workers."""
    await queue.run(run_id)  # raises UnknownRun
    found: dict[str, ProxyStatus] = {}
    at_work = {one.worker_id for one in await queue.workers(run_id) if is_at_work(one)}
    for key, note in (await queue.notes(topic(STATS, run_id))).items():
        worker = key.partition(" ")[0]
        for name, stats in read_stats(note).items():
            status = found.setdefault(name, ProxyStatus(name))
            status.add(stats)
            if stats.is_mine and worker in at_work:
                status.workers.append(worker)
    notes = await queue.notes(topic(BENCHED, run_id))
    for unit, seconds in left_of(notes).items():
        name, _, host = unit.partition(" ")
        status = found.setdefault(name, ProxyStatus(name))
        if host:
            status.blocked_by.append(host)
        else:
            status.benched, status.back_in = read_ban(notes[unit]), seconds
    return [found[name] for name in sorted(found)]


async def check_proxies(rules: ProxyRules) -> tuple[bool, bool, str]:
    """Return whether any proxy is reachable, whether all are, and a message for the user."""
    limit = asyncio.Semaphore(MAX_CONCURRENT)
    try:
        found = await ProxySource(rules).read()
    except ShoalError as error:
        return False, False, str(error)
    reachable = await asyncio.gather(*(_is_reachable(proxy, limit) for proxy in found))
    names = [proxy.name.partition("#")[0] for proxy, is_up in zip(found, reachable, strict=True) if not is_up]
    if not names:
        return True, True, f"all {len(found):,} can be reached"
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return len(names) < len(found), False, f"{len(names):,} of {len(found):,} cannot be reached: {shown}"


async def _is_reachable(proxy: Proxy, limit: asyncio.Semaphore) -> bool:
    host, port = endpoint(proxy)
    with suppress(OSError):
        async with limit, asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
            _, writer = await asyncio.open_connection(host, port)
            writer.transport.abort()
            return True
    return False

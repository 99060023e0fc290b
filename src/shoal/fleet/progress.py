"""How a run is getting on: its counts, its rate, and how long it may still take."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shoal.core.model import ZERO, Counts, HostStatus, Run, Stats
from shoal.queue.contract import Queue
from shoal.worker.not_followed import Links, links_not_followed

ENDS = ("finished", "partial", "cancelled")
WINDOW = 15.0  # seconds over which a rate is taken
MOST_HOSTS = 1_000
LOOK_AT_HOSTS = 5.0  # seconds between two looks at hosts and links


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment."""

    run: Run
    stats: Stats
    hosts: int
    rate: float  # tasks brought to an end per second
    eta: timedelta | None
    # Hosts with work that must not be asked now, the first to be free first.
    paused: Sequence[HostStatus] = ()
    not_followed: Mapping[str, Links] = field(default_factory=dict)  # by reason

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens unless somebody resumes the run or adds to it."""
        return self.state in ENDS

    @property
    def waits_for(self) -> str | None:
        """What a run waits for that has nothing in hand, in words."""
        if self.stats.leased or not self.stats.remaining or not self.paused:
            return None
        first = self.paused[0]
        others = f" and {len(self.paused) - 1:,} more" if len(self.paused) > 1 else ""
        seconds = (first.paused_for or ZERO).total_seconds()
        return f"{first.host}{others}, paused for {seconds:,.0f} s"

    @property
    def state(self) -> str:
        """The run's state in one word; a run without work left has finished."""
        if self.run.state == "running" and self.stats.remaining == 0 and self.stats.tasks:
            return "finished"
        return str(self.run.state)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal status RUN --json` promises."""
        return {
            "run_id": self.run.id,
            "scraper": self.run.scraper,
            "state": self.state,
            "reason": self.run.reason or None,
            **counts_as_json(self.stats),
            "rate": round(self.rate, 2),
            "eta_seconds": round(self.eta.total_seconds()) if self.eta else None,
            "steps": {name: counts_as_json(counts) for name, counts in self.stats.steps.items()},
            "partitions": {
                name: counts_as_json(counts) for name, counts in sorted(self.stats.partitions.items())
            },
            "not_followed": links_as_json(self.not_followed),
        }


def links_as_json(not_followed: Mapping[str, Links]) -> dict[str, Any]:
    """Return the links that were not followed under the names that every report uses."""
    return {reason: links.as_json() for reason, links in not_followed.items()}


def counts_as_json(counts: Counts) -> dict[str, int]:
    """Return counts under the names that every report uses."""
    names = (
        "pending",
        "delayed",
        "leased",
        "completed",
        "dead",
        "expired",
        "dropped",
        "remaining",
        "items",
        "rejected",
    )
    return {name: getattr(counts, name) for name in names}


class Progress:
    """Looks at a run again and again, and knows its rate."""

    def __init__(self, queue: Queue, run_id: str) -> None:
        self._queue, self._run_id = queue, run_id
        self._seen: deque[tuple[float, int]] = deque()
        self._hosts, self._paused, self._hosts_at = 0, list[HostStatus](), 0.0
        self._not_followed: dict[str, Links] = {}

    async def look(self, *, last: bool = False) -> Snapshot:
        """Return how the run is now; the last time with links that were not followed a moment ago, too."""
        run = await self._queue.run(self._run_id)
        stats = await self._queue.stats(self._run_id)
        now = time.monotonic()
        rate = self._rate(now, stats.completed + stats.dead)
        eta = timedelta(seconds=stats.remaining / rate) if rate > 0 and stats.remaining else None
        await self._look_at_hosts(now)
        if last:
            self._not_followed = await links_not_followed(self._queue, self._run_id)
        return Snapshot(run, stats, self._hosts, rate, eta, self._paused, self._not_followed)

    def _rate(self, now: float, ended: int) -> float:
        self._seen.append((now, ended))
        while len(self._seen) > 2 and self._seen[0][0] < now - WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        return (ended - before) / (now - then) if now > then else 0.0

    async def _look_at_hosts(self, now: float) -> None:
        # A million hosts are not counted twice a second.
        if now < self._hosts_at + LOOK_AT_HOSTS and self._hosts:
            return
        count, paused = 0, []
        async for host in self._queue.hosts(self._run_id):
            count += 1
            if host.paused_for and host.counts.remaining:
                paused.append(host)
            if count >= MOST_HOSTS:
                break
        self._hosts, self._hosts_at = count, now
        self._paused = sorted(paused, key=lambda host: host.paused_for or ZERO)
        self._not_followed = await links_not_followed(self._queue, self._run_id)

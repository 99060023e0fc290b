"""What the site has seen: who was asked how often, when, and what was answered."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

KEPT = 50_000  # moments per host


@dataclass(frozen=True, slots=True)
class HostLog:
    """The requests of one host; `moments` are those of the last ones, in seconds of the monotonic clock."""

    statuses: Counter[int] = field(default_factory=Counter)
    moments: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def requests(self) -> int:
        """All requests, also those whose moment is forgotten."""
        return self.statuses.total()

    @property
    def shortest_gap(self) -> float | None:
        """The least time between the arrivals of two requests that are remembered, in seconds."""
        return min((later - sooner for sooner, later in pairwise(self.moments)), default=None)


@dataclass(frozen=True, slots=True)
class SiteLog:
    """What all shops have seen together."""

    hosts: dict[str, HostLog] = field(default_factory=dict)
    visits: Counter[str] = field(default_factory=Counter)  # by URL, of pages that came with status 200
    forbidden: Counter[str] = field(default_factory=Counter)  # by host, of what robots.txt asks not to visit

    @property
    def statuses(self) -> Counter[int]:
        """How often each status was answered."""
        return sum((host.statuses for host in self.hosts.values()), Counter())

    @property
    def requests(self) -> int:
        """How many requests came."""
        return self.statuses.total()

    def note(self, host: str, status: int) -> None:
        """Remember that a request has come just now, and how it is answered."""
        log = self.hosts[host]
        log.statuses[status] += 1
        log.moments.append(time.monotonic())

    def summary(self) -> dict[str, Any]:
        """Return the log as plain data, without the moments."""
        return {
            "requests": self.requests,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "forbidden": dict(self.forbidden),
            "hosts": {
                name: {"requests": host.requests, "shortest_gap": host.shortest_gap}
                for name, host in self.hosts.items()
            },
        }

"""The request log of the site: counts, times and statuses by host."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

MAX_TIMES = 50_000  # request times kept per host


@dataclass(frozen=True, slots=True)
class HostLog:
    """The requests of one host; `times` are the arrivals of the latest ones, in monotonic seconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))

    @property
    def requests(self) -> int:
        """The number of all requests, also those whose time is no longer kept."""
        return self.statuses.total()

    @property
    def shortest_gap(self) -> float | None:
        """The shortest time between two consecutive requests in `times`, in seconds."""
        return min((later - earlier for earlier, later in pairwise(self.times)), default=None)


@dataclass(frozen=True, slots=True)
class SiteLog:
    """The requests of all shops."""

    hosts: dict[str, HostLog] = field(default_factory=dict)
    visits: Counter[str] = field(default_factory=Counter)  # by URL, responses with status 200
    forbidden: Counter[str] = field(default_factory=Counter)  # by host, requests that robots.txt forbids

    @property
    def statuses(self) -> Counter[int]:
        """The number of responses by status."""
        return sum((host.statuses for host in self.hosts.values()), Counter())

    @property
    def requests(self) -> int:
        """The number of requests."""
        return self.statuses.total()

    def record(self, host: str, status: int) -> None:
        """Record a request that arrived now, with the status of its response."""
        log = self.hosts[host]
        log.statuses[status] += 1
        log.times.append(time.monotonic())

    def summary(self) -> dict[str, Any]:
        """Return the log as plain data, without the times."""
        return {
            "requests": self.requests,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "forbidden": dict(self.forbidden),
            "hosts": {
                name: {"requests": host.requests, "shortest_gap": host.shortest_gap}
                for name, host in self.hosts.items()
            },
        }

"""How a worker is, for its heartbeats: what it serves, how fast it is, and what memory it takes."""

import os
from collections import deque
from pathlib import Path
from typing import Any

from shoal.worker.line import Order
from shoal.worker.tally import Tally, most_of

HOUR = 3600.0  # seconds
SAMPLE_EVERY = 60.0
MOST_ERRORS = 20  # classes that a heartbeat names
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Condition:
    """Remembers how far a worker was in the last hour."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._seen: deque[tuple[float, int]] = deque()  # when, and pages done by then

    def info(self, pid: int | None, tally: Tally, now: float) -> dict[str, Any]:
        """Return what a heartbeat says."""
        return {
            "pid": pid,
            "pages": tally.pages,
            "last_hour": self.last_hour(tally.pages, now),
            "memory": memory_of(pid) if pid else None,
            "steps": self._order.steps,
            "partitions": self._order.partitions,
            "errors": dict(most_of(tally.errors, MOST_ERRORS)),
        }

    def last_hour(self, pages: int, now: float) -> int:
        """Return how many pages were done in the hour before `now`, to the minute."""
        if not self._seen:
            self._seen.append((now, 0))
        elif now - self._seen[-1][0] >= SAMPLE_EVERY:
            self._seen.append((now, pages))
        while len(self._seen) > 1 and self._seen[1][0] <= now - HOUR:
            self._seen.popleft()
        return pages - self._seen[0][1]


def memory_of(pid: int) -> int | None:
    """Return the bytes of memory that a process takes, None where this machine does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None

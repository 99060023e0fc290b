"""How a worker is, for its heartbeats: what it serves, how fast it is, and what memory it takes."""

import os
from collections import deque
from pathlib import Path
from typing import Any

from shoal.core.model import WorkerStatus
from shoal.worker.line import Order
from shoal.worker.tally import Tally, most_of

HOUR = 3600.0  # seconds
SAMPLE_EVERY = 60.0
SPAN = 300.0  # seconds; a heartbeat tells the last hour in spans of this length, so that others see it age
MOST_ERRORS = 20  # classes that a heartbeat names
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Condition:
    """Remembers how far a worker was in the last hour."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._seen: deque[tuple[float, int]] = deque()  # when, and pages done by then

    def info(self, pid: int | None, tally: Tally, now: float, in_hand: int = 0) -> dict[str, Any]:
        """Return what a heartbeat says."""
        info: dict[str, Any] = {
            "pid": pid,
            "pages": tally.pages,
            "last_hour": self.last_hour(tally.pages, now),
            "spans": self.spans(tally.pages, now),
            "memory": memory_of(pid) if pid else None,
            "steps": self._order.steps,
            "partitions": self._order.partitions,
            "errors": dict(most_of(tally.errors, MOST_ERRORS)),
        }
        if self._order.listening:
            info["own"] = {
                "leased": in_hand,
                "completed": tally.pages,
                "failed": tally.retried + tally.buried,
                "items": tally.items,
            }
        return info

    def last_hour(self, pages: int, now: float) -> int:
        """Return how many pages were done in the hour before `now`, to the minute."""
        if not self._seen:
            self._seen.append((now, 0))
        elif now - self._seen[-1][0] >= SAMPLE_EVERY:
            self._seen.append((now, pages))
        while len(self._seen) > 1 and self._seen[1][0] <= now - HOUR:
            self._seen.popleft()
        return pages - self._seen[0][1]

    def spans(self, pages: int, now: float) -> list[int]:
        """Return the pages of the last hour by spans, the newest first."""
        found = [0] * round(HOUR / SPAN)
        later = pages
        for moment, done in reversed(self._seen):
            found[min(int((now - moment) / SPAN), len(found) - 1)] += later - done
            later = done
        return found


def last_hour_of(worker: WorkerStatus) -> int | None:
    """Return how many pages a worker did in the hour before now, to a few minutes; None if it never said."""
    info, silent = worker.info, worker.last_beat.total_seconds()
    if "last_hour" not in info:
        return None
    if silent >= HOUR:
        return 0
    # Pages that the store knows of and the last heartbeat did not.
    since = 0 if "own" in info else max(worker.completed - whole_number(info.get("pages")), 0)
    told = info.get("spans")
    by_span = told if isinstance(told, list) and told else [info["last_hour"]]
    spans = [whole_number(span) for span in by_span]
    is_split = len(spans) > 1
    return since + sum(spans[: len(spans) - int(silent / SPAN)] if is_split else spans)


def whole_number(value: object) -> int:
    """Return a count of a heartbeat, 0 for what is no number: whoever reaches the queue can write one."""
    return value if isinstance(value, int) else 0


def memory_of(pid: int) -> int | None:
    """Return the bytes of memory that a process takes, None where this machine does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None

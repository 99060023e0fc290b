"""The heartbeats of workers: what each serves, how fast it is, its memory; and how they are sent."""

import asyncio
import os
import random
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.model import SECOND, WorkerStatus
from shoal.core.procfs import pid_scope
from shoal.core.tasks import exact_time
from shoal.queue.contract import WorkerBeat, WorkQueue
from shoal.worker.counters import WorkerCounters, top_counts
from shoal.worker.ipc.protocol import WorkerConfig

HEARTBEAT_INTERVAL = 5 * SECOND
IDLE_HEARTBEAT_INTERVAL = 2 * HEARTBEAT_INTERVAL  # of a worker that holds no lease
HOUR = 3600.0  # seconds
SAMPLE_INTERVAL_SECONDS = 60.0
SPAN = 300.0  # seconds; a heartbeat reports the last hour in spans of this length, so readers can age it
MAX_ERRORS = 20  # error classes in a heartbeat
COLLECT_SECONDS = 0.005  # in which heartbeats are collected: timers are not exact
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Heartbeat:
    """Builds the heartbeats of a worker from its progress in the last hour."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._samples: deque[tuple[float, int]] = deque()  # time, and pages done by then

    def info(self, pid: int | None, tally: WorkerCounters, now: float, in_hand: int = 0) -> dict[str, Any]:
        """Return the content of a heartbeat."""
        info: dict[str, Any] = {
            "pid": pid,
            "pid_scope": pid_scope(),
            "pages": tally.pages,
            "spans": self.spans(tally.pages, now),
            "memory": memory_of(pid) if pid else None,
            "steps": self._config.steps,
            "partitions": self._config.partitions,
            "errors": dict(top_counts(tally.errors, MAX_ERRORS)),
        }
        if tally.waits_for:
            info["waits_for"] = tally.waits_for
        if tally.from_cache or tally.not_cached:
            info["cache"] = {"hits": tally.from_cache, "misses": tally.not_cached}
        if self._config.listening:
            info["own"] = {
                "leased": in_hand,
                "completed": tally.pages,
                "failed": tally.retried + tally.buried,
                "items": tally.items,
            }
        return info

    def spans(self, pages: int, now: float) -> list[int]:
        """Return the pages of the last hour per span, the newest first, to the minute."""
        if not self._samples:
            self._samples.append((now, 0))
        elif now - self._samples[-1][0] >= SAMPLE_INTERVAL_SECONDS:
            self._samples.append((now, pages))
        while len(self._samples) > 1 and self._samples[1][0] <= now - HOUR:
            self._samples.popleft()
        found = [0] * round(HOUR / SPAN)
        later = pages
        for moment, done in reversed(self._samples):
            found[min(int((now - moment) / SPAN), len(found) - 1)] += later - done
            later = done
        return found


class HeartbeatSender:
    """Sends the heartbeats of a launcher's workers: one call for all that are due at the same moment."""

    def __init__(self, queue: WorkQueue, run_id: str) -> None:
        self._queue, self._run_id = queue, run_id
        # Launchers that were started together must not send all at once.
        self._first = exact_time() + random.uniform(0, IDLE_HEARTBEAT_INTERVAL.total_seconds())
        self._waiting: dict[str, WorkerBeat] = {}
        self._collecting: asyncio.Task[Exception | None] | None = None
        self._order = asyncio.Lock()

    def until_next(self, interval: timedelta) -> float:
        """Return the seconds until all workers with this interval send their next heartbeat."""
        seconds = interval.total_seconds()
        return seconds - (exact_time() - self._first) % seconds

    async def send(self, beat: WorkerBeat) -> None:
        """Send a heartbeat, with those that are sent at the same moment; raises what the queue raises."""
        self._waiting[beat.worker_id] = beat
        if self._collecting is None:
            self._collecting = asyncio.create_task(self._send())
        # The heartbeats of the others do not end with this one.
        if error := await asyncio.shield(self._collecting):
            raise error

    async def _send(self) -> Exception | None:
        await asyncio.sleep(COLLECT_SECONDS)
        beats, self._waiting, self._collecting = list(self._waiting.values()), {}, None
        try:
            async with self._order:  # a worker's last heartbeat is stored after the one before
                await self._queue.beat_together(self._run_id, beats)
        except Exception as error:
            return error  # to all that wait, of whom there may be none
        return None


def last_hour_of(worker: WorkerStatus) -> int | None:
    """Return the pages a worker did in the hour before now, to a few minutes; None if it never reported."""
    info, silent = worker.info, worker.last_beat.total_seconds()
    if "spans" not in info:
        return None
    if silent >= HOUR:
        return 0
    # Pages that the store counts and the last heartbeat did not.
    since = 0 if "own" in info else max(worker.completed - whole_number(info.get("pages")), 0)
    reported = info["spans"]
    spans = [whole_number(span) for span in reported] if isinstance(reported, list) else []
    return since + sum(spans[: len(spans) - int(silent / SPAN)])


def whole_number(value: object) -> int:
    """Return a count in a heartbeat, 0 if it is no number: any client of the queue can write one."""
    return value if isinstance(value, int) else 0


def memory_of(pid: int) -> int | None:
    """Return the resident memory of a process in bytes, None if the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None

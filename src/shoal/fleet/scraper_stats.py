"""Statistics that a scraper counts itself: each worker writes its own into a note, reports have their sum.

A worker that is killed loses those of its last seconds.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from shoal.queue.contract import SharedNotes

STATS_TTL = timedelta(days=365)
START, FINISH, ELAPSED = "start_time", "finish_time", "elapsed_time_seconds"


def stats_topic(run_id: str) -> str:
    """Return the topic of the statistics of a run, whose keys are workers."""
    return f"statistics of run {run_id}"


async def write_stats(queue: SharedNotes, run_id: str, worker: str, stats: Mapping[str, Any]) -> None:
    """Store the statistics of a worker in place of its earlier ones: numbers, texts and times."""
    value = msgspec.json.encode(stats)
    await queue.write_notes(stats_topic(run_id), {worker: value}, ttl=STATS_TTL)


async def read_stats(queue: SharedNotes, run_id: str) -> dict[str, Any]:
    """Return the statistics of a run, over all its workers so far."""
    notes = await queue.notes(stats_topic(run_id))
    return add_stats(msgspec.json.decode(note.value) for note in notes.values())


def add_stats(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of statistics: numbers are added, but for those named max or min; times are a span."""
    found: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    total = {name: _add(name, values) for name, values in sorted(found.items())}
    if ELAPSED in total and START in total and FINISH in total:
        span = datetime.fromisoformat(total[FINISH]) - datetime.fromisoformat(total[START])
        total[ELAPSED] = span.total_seconds()
    return total


def _add(name: str, values: list[Any]) -> Any:
    if name == START or name.endswith("min"):
        return min(values)
    if name == FINISH or name.endswith("max"):
        return max(values)
    if all(isinstance(value, int | float) for value in values):
        return sum(values)
    return ", ".join(sorted({str(value) for value in values}))

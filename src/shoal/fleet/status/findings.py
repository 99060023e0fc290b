"""What to look at after a run: its first errors, the first reject, fields that stay empty, some items."""

import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from shoal.core.model import Stats, StoredItem
from shoal.core.tasks import first
from shoal.core.text import shorten
from shoal.fleet.quality.profile import StepProfiler
from shoal.queue.contract import Queue, QueueReports

MAX_LETTERS = 1_000  # dead letters that are read, the oldest first
MAX_ITEMS = 1_000  # items of a step that are read, the first ones
MAX_STEPS = 20
MAX_FIELDS = 20  # of a step; items of any size may be stored
MAX_MESSAGE = 200  # characters


class EmptyFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that hold nothing in every item that was read."""

    step: str
    fields: tuple[str, ...]
    items: int  # that were read


class RunFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to say about itself, as far as its first results show."""

    errors: Mapping[str, str] = msgspec.field(default_factory=dict)  # the first message, by class
    reject: str | None = None  # the first reason
    empty: tuple[EmptyFields, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal run --json` promises."""
        return {
            "first_errors": dict(self.errors),
            "first_reject": self.reject,
            "empty_fields": {
                found.step: {"fields": list(found.fields), "items": found.items} for found in self.empty
            },
        }


async def read_findings(queue: Queue, run_id: str, stats: Stats) -> RunFindings:
    """Read the beginning of a run's dead letters, rejects and items; the amount is bounded."""
    return RunFindings(
        errors=await _first_errors(queue, run_id) if stats.dead else {},
        reject=await _first_reject(queue, run_id) if stats.rejected else None,
        empty=tuple(await _empty_fields(queue, run_id, stats)) if stats.items else (),
    )


async def _first_errors(queue: QueueReports, run_id: str) -> dict[str, str]:
    found: dict[str, str] = {}
    async for letter in first(queue.dead(run_id), MAX_LETTERS):
        lines = letter.error.splitlines() or [""]
        name, _, message = lines[0].partition(": ")
        found.setdefault(shorten(name, MAX_MESSAGE), shorten(message, MAX_MESSAGE))
    return found


async def _first_reject(queue: QueueReports, run_id: str) -> str | None:
    async for reject in first(queue.rejects(run_id), 1):
        return shorten(reject.reason, MAX_MESSAGE)
    return None


async def _empty_fields(queue: QueueReports, run_id: str, stats: Stats) -> list[EmptyFields]:
    """Find the empty fields of each step: steps yield items of different types."""
    steps = [name for name, counts in stats.steps.items() if counts.items]
    found = []
    for step in steps[:MAX_STEPS]:
        profiler = StepProfiler(step)
        if items := [item async for item in first(queue.items(run_id, step=step), MAX_ITEMS)]:
            profiler.add(items)
        fields = profiler.profile().fields
        if names := tuple(name for name, field in fields.items() if not field.filled):
            found.append(EmptyFields(step=step, fields=names[:MAX_FIELDS], items=len(items)))
    return found


async def sample_of(source: AsyncIterator[StoredItem], size: int) -> list[StoredItem]:
    """Return `size` random items of a stream in their order; only these are held in memory."""
    kept: list[StoredItem] = []
    seen = 0
    async for item in source:
        seen += 1
        if len(kept) < size:
            kept.append(item)
        elif (place := random.randrange(seen)) < size:
            kept[place] = item
    return sorted(kept, key=lambda item: item.id)

"""The response cache: what is stored in it, and how often the workers of each run found a page there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.model import WorkerStatus
from shoal.fetch.cache.queue_store import TOPIC
from shoal.fetch.cache.store import DiskStore
from shoal.fleet.status.rows import CacheRow, CacheUseRow
from shoal.queue.contract import NotesSize, Queue
from shoal.worker.process.heartbeat import whole_number


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How many pages of a run were found in the cache, and how many were not; a retry looks for none."""

    run_id: str
    hits: int
    misses: int

    @property
    def hit_rate(self) -> float:
        """The part of the pages that was found, between 0 and 1."""
        return self.hits / (self.hits + self.misses)

    def row(self) -> CacheUseRow:
        """Return the use as `shoal cache --json` reports it."""
        return CacheUseRow.of(self, hit_rate=round(self.hit_rate, 4))


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """The size of a cache, and its use by runs, as far as their workers have reported it."""

    size: NotesSize  # an entry is a response, or the list of those that differ by `Vary`
    runs: Sequence[CacheUse]

    def row(self) -> CacheRow:
        """Return the cache as `shoal cache --json` reports it."""
        return CacheRow(
            entries=self.size.count,
            bytes=self.size.bytes,
            oldest_seconds=None if self.size.oldest is None else self.size.oldest.total_seconds(),
            runs=[use.row() for use in self.runs],
        )


async def cache_status(
    queue: Queue, run_id: str | None = None, *, folder: str | Path | None = None
) -> CacheStatus:
    """Return what the cache of a queue, or one in a folder, holds, and how runs use it, the newest first.

    Raises InvalidSetting if there is no such folder.
    """
    if folder is None:
        size = await queue.notes_size(TOPIC)
    elif Path(folder).is_dir():
        size = await asyncio.to_thread(_size_of_folder, Path(folder))
    else:
        raise InvalidSetting("folder", f"{folder} is no folder. Name that of the setting cache: disk:FOLDER")
    return CacheStatus(size, cache_uses(await queue.workers(run_id)))


def cache_uses(workers: Sequence[WorkerStatus]) -> list[CacheUse]:
    """Return how the runs of these workers use the cache; those that do not are left out."""
    counts: dict[str, list[int]] = {}
    for worker in workers:
        if isinstance(reported := worker.info.get("cache"), dict):
            found = counts.setdefault(worker.run_id, [0, 0])
            found[0] += whole_number(reported.get("hits"))
            found[1] += whole_number(reported.get("misses"))
    uses = [CacheUse(run_id, *found) for run_id, found in counts.items() if sum(found)]
    return sorted(uses, key=lambda use: use.run_id, reverse=True)


def _size_of_folder(folder: Path) -> NotesSize:
    count, total, oldest = DiskStore.measure(folder)
    return NotesSize(count, total, None if oldest is None else timedelta(seconds=oldest))

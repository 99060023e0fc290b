"""The response cache: what is stored in it, and how often the workers of each run found a page there."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.model import WorkerStatus
from shoal.fetch.cache.queue_store import TOPIC
from shoal.fetch.cache.store import DiskStore
from shoal.fleet.status.rows.fetchers import CacheRow, CacheUseRow
from shoal.queue.contract import NotesSize, Queue
from shoal.worker.process.heartbeat import whole_number


async def cache_status(
    queue: Queue, run_id: str | None = None, *, folder: str | Path | None = None
) -> CacheRow:
    """Return what the cache of a queue, or one in a folder, holds, and how runs use it, the newest first.

    Raises InvalidSetting if there is no such folder.
    """
    if folder is None:
        size = await queue.notes_size(TOPIC)
    elif Path(folder).is_dir():
        size = await asyncio.to_thread(_size_of_folder, Path(folder))
    else:
        raise InvalidSetting("folder", f"{folder} is no folder. Name that of the setting cache: disk:FOLDER")
    return CacheRow(
        entries=size.count,
        bytes=size.bytes,
        oldest_seconds=None if size.oldest is None else size.oldest.total_seconds(),
        runs=cache_uses(await queue.workers(run_id)),
    )


def cache_uses(workers: Sequence[WorkerStatus]) -> list[CacheUseRow]:
    """Return how the runs of these workers use the cache; those that do not are left out."""
    counts: dict[str, list[int]] = {}
    for worker in workers:
        if isinstance(reported := worker.info.get("cache"), dict):
            found = counts.setdefault(worker.run_id, [0, 0])
            found[0] += whole_number(reported.get("hits"))
            found[1] += whole_number(reported.get("misses"))
    uses = [
        CacheUseRow(run_id=run_id, hits=hits, misses=misses, hit_rate=round(hits / (hits + misses), 4))
        for run_id, (hits, misses) in counts.items()
        if hits + misses
    ]
    return sorted(uses, key=lambda use: use.run_id, reverse=True)


def _size_of_folder(folder: Path) -> NotesSize:
    count, total, oldest = DiskStore.measure(folder)
    return NotesSize(count, total, None if oldest is None else timedelta(seconds=oldest))

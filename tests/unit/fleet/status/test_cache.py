"""What the response cache holds, and how runs use it."""

from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.cache.queue_store import TOPIC
from shoal.fetch.cache.store import DiskStore
from shoal.fleet.status.cache import cache_status, cache_uses
from shoal.fleet.status.rows.fetchers import CacheRow, CacheUseRow
from shoal.queue.sqlite.queue import SqliteQueue
from tests.unit.builders import make_worker


def worker(run_id, **info):
    return make_worker(worker_id="w", run_id=run_id, state="ended", info=info, last_beat=timedelta(0))


def test_the_hits_of_all_workers_of_a_run_are_added_and_runs_without_a_cache_are_left_out():
    uses = cache_uses(
        [
            worker("r1", cache={"hits": 3, "misses": 1}),
            worker("r1", cache={"hits": 0, "misses": 4}),
            worker("r2", cache={"hits": 0, "misses": 2}),
            worker("r3"),
            worker("r4", cache={"hits": "many"}),
            worker("r5", cache=["hits"]),
        ]
    )
    assert uses == [
        CacheUseRow(run_id="r2", hits=0, misses=2, hit_rate=0.0),
        CacheUseRow(run_id="r1", hits=3, misses=5, hit_rate=0.375),
    ]


async def test_the_cache_of_a_queue_and_one_in_a_folder_are_measured(tmp_path):
    async with await SqliteQueue.open(tmp_path / "queue.db") as queue:
        empty = await cache_status(queue)
        assert empty == CacheRow(entries=0, bytes=0, oldest_seconds=None, runs=[])
        await queue.write_notes(TOPIC, {"a": b"1234", "b": b"5"})
        found = await cache_status(queue)
        assert (found.entries, found.bytes) == (2, 5) and found.oldest_seconds >= 0
        store = DiskStore(tmp_path / "pages", max_bytes=1_000)
        await store.put("aabb", b"123", ttl=timedelta(minutes=1))
        on_disk = await cache_status(queue, folder=tmp_path / "pages")
        assert (on_disk.entries, on_disk.bytes) == (1, 3) and on_disk.oldest_seconds >= 0
        with pytest.raises(InvalidSetting, match="is no folder"):
            await cache_status(queue, folder=tmp_path / "nowhere")

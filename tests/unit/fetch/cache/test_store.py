"""Responses stored on disk: intact, shared, and within the size limit."""

import asyncio
import os
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.cache.store import DiskStore

KEEP = timedelta(days=1)
KEYS = [f"{number:02x}" + "0" * 38 for number in range(40)]


def files(folder):
    return sorted(path for path in folder.glob("??/*") if path.is_file())


async def test_what_is_put_is_found_with_its_age_and_by_others_too(tmp_path):
    await DiskStore(tmp_path / "cache", max_bytes=1 << 20).put(KEYS[0], b"page", ttl=KEEP)
    (file,) = files(tmp_path / "cache")
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 30))
    held = await DiskStore(tmp_path / "cache", max_bytes=1 << 20).get(KEYS[0])
    assert held.value == b"page"
    assert timedelta(seconds=30) <= held.age < timedelta(seconds=40)


async def test_what_is_not_there_or_was_taken_away_is_a_miss(tmp_path):
    store = DiskStore(tmp_path, max_bytes=1 << 20)
    assert await store.get(KEYS[0]) is None
    await store.put(KEYS[0], b"page", ttl=KEEP)
    await store.put(KEYS[0], None, ttl=KEEP)
    await store.put(KEYS[0], None, ttl=KEEP)
    assert await store.get(KEYS[0]) is None


async def test_the_oldest_go_when_there_is_no_room(tmp_path):
    store = DiskStore(tmp_path, max_bytes=10_000)
    for age, key in enumerate(reversed(KEYS)):
        await store.put(key, b"x" * 1_000, ttl=KEEP)
        file = tmp_path / key[:2] / key[2:]
        os.utime(file, (0, 1_700_000_000 + age))
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 11_000
    assert await store.get(KEYS[0]) is not None
    assert await store.get(KEYS[-1]) is None


async def test_many_writers_of_one_answer_never_leave_half_of_it(tmp_path):
    stores = [DiskStore(tmp_path, max_bytes=1 << 20) for _ in range(4)]
    pages = [bytes([number]) * 50_000 for number in range(4)]
    for _ in range(5):
        await asyncio.gather(
            *(store.put(KEYS[0], body, ttl=KEEP) for store, body in zip(stores, pages, strict=True))
        )
        assert (await stores[0].get(KEYS[0])).value in pages
    assert len(files(tmp_path)) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSetting, match="cannot use the folder"):
        DiskStore(tmp_path / "file" / "cache", max_bytes=1)

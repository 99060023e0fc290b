"""Streaming items from a queue to a file."""

import asyncio
import threading
from datetime import timedelta

import msgspec
import pytest

from shoal.export.contract import Writer
from shoal.export.follow import BATCH, export, stored_since
from shoal.export.open import open_writer
from tests.unit.export.factories import NOON, item, items, source

SUFFIXES = ["jsonl", "jsonl.gz", "csv", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_all_items_are_written_and_counted(tmp_path, suffix):
    count = BATCH * 2 + 1
    some = items(*({"n": n} for n in range(count)))
    report = await export(source(some), open_writer(tmp_path / f"items.{suffix}"))
    assert (report.items, report.steps, report.skipped) == (count, {"product": count}, 0)


async def test_items_are_counted_by_step(tmp_path):
    some = [item(1, 1, "listing"), item(2, 2, "product"), item(3, 3, "product")]
    report = await export(source(some), open_writer(tmp_path / "items.jsonl"))
    assert report.steps == {"listing": 1, "product": 2}


async def test_only_items_stored_since_a_time_are_yielded():
    some = [msgspec.structs.replace(item(n, n), stored_at=NOON + timedelta(minutes=n)) for n in range(4)]
    since = NOON + timedelta(minutes=2)
    assert [one.data async for one in stored_since(source(some)(), since)] == [2, 3]
    assert [one.data async for one in stored_since(source(some)(), None)] == [0, 1, 2, 3]


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_an_error_among_the_items_leaves_no_file(tmp_path, suffix):
    async def broken():
        yield item({"n": 1})
        raise ConnectionError("the queue is gone")

    with pytest.raises(ConnectionError):
        await export(broken, open_writer(tmp_path / f"items.{suffix}"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_cancelling_leaves_no_file(tmp_path, suffix):
    async def endless():
        yield item({"n": 1})
        await asyncio.Event().wait()

    task = asyncio.create_task(export(endless, open_writer(tmp_path / f"items.{suffix}")))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(tmp_path.iterdir()) == []


async def test_a_writer_is_not_discarded_while_it_writes():
    started, may_go_on, seen = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    class Slow(Writer):
        def write(self, items):
            loop.call_soon_threadsafe(started.set)
            seen.append(may_go_on.wait(10))

        def close(self):
            seen.append("closed")

        def discard(self):
            seen.append("discarded")

    task = asyncio.create_task(export(source(items(1)), Slow()))
    await started.wait()
    task.cancel()
    loop.call_later(0.05, may_go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [True, "discarded"]


async def test_items_stored_after_the_survey_are_left_to_the_next_export(tmp_path):
    calls = 0

    async def growing():
        nonlocal calls
        calls += 1
        yield item({"n": 1}, 1)
        if calls > 1:
            yield item({"new": 2}, 2)

    assert (await export(growing, open_writer(tmp_path / "items.csv"))).items == 1
    assert (tmp_path / "items.csv").read_text() == "n\n1\n"

"""Batches are prepared while others are written: an error stops cleanly."""

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import Task
from shoal.queue.sqlite.enqueue import BATCH


def pages(count):
    return (Task(url=f"https://h.example/{n}") for n in range(count))


def breaks_down(after):
    yield from pages(after)
    raise ConnectionError("the source is gone")


async def test_when_the_source_breaks_down_the_batches_before_are_stored(queue):
    run = await queue.start_run("books")
    with pytest.raises(ConnectionError):
        await queue.enqueue(run.id, breaks_down(after=2 * BATCH + 5))
    assert (await queue.stats(run.id)).tasks == 2 * BATCH


async def test_when_the_run_goes_away_the_source_is_not_read_to_its_end(queue):
    run = await queue.start_run("books")
    read = 0

    async def source():
        nonlocal read
        for task in pages(5 * BATCH):
            if read == BATCH + 5:
                await queue.purge(run.id)
            read += 1
            yield task

    with pytest.raises(UnknownRun):
        await queue.enqueue(run.id, source())
    assert read < 5 * BATCH

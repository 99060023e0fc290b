"""A command opens its queue."""

import asyncio
import os
import sys
import threading

import pytest

from shoal.cli.console import say
from shoal.cli.open_queue import with_queue, with_run
from shoal.core.errors import RunGone, UnknownQueue


def test_a_run_that_is_deleted_meanwhile_is_called_gone_and_no_other_is_proposed(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"

    async def fill(queue):
        for name in ("20260215_120000_ab12", "20260215_120000_ab13"):
            await queue.start_run("books", run_id=name)

    async def export(queue, run_id):
        await queue.purge(run_id)
        return [item async for item in queue.items(run_id)]

    with_queue(url, fill)
    with pytest.raises(RunGone, match="20260215_120000_ab12 is no longer in the queue: somebody purged it"):
        with_run(url, "20260215_120000_ab12", export)


def test_a_queue_that_cannot_be_opened_is_what_is_reported():
    async def work(queue):
        raise AssertionError("the work must not begin")

    with pytest.raises(UnknownQueue):
        with_queue("nothing://a", work)


def test_a_stalled_reader_of_messages_does_not_stop_what_a_command_does(tmp_path, monkeypatch):
    reading, writing = os.pipe()
    ended, taken = threading.Event(), bytearray()

    async def work(queue):
        for _ in range(2_000):
            say("x" * 99)  # 200 KB, of which a pipe takes 64 KB
        await asyncio.sleep(0)
        ended.set()

    def read():
        assert ended.wait(30)
        while len(taken) < 200_000:
            taken.extend(os.read(reading, 65536))

    with os.fdopen(reading, "rb"), os.fdopen(writing, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        reader = threading.Thread(target=read)
        reader.start()
        with_queue(f"sqlite:///{tmp_path}/a.db", work)
        reader.join()
        assert sys.stderr is stderr
    assert taken.decode().split() == ["x" * 99] * 2_000

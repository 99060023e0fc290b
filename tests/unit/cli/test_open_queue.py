"""A command opens its queue, and imports what it needs meanwhile."""

import threading

import pytest

from shoal.cli.open_queue import with_queue, with_run
from shoal.core.errors import RunGone, UnknownQueue


def test_what_runs_meanwhile_is_in_a_thread_and_over_before_the_work(tmp_path):
    threads = []

    async def work(queue):
        return threads, await queue.runs()

    def meanwhile():
        threads.append(threading.current_thread())

    found, runs = with_queue(f"sqlite:///{tmp_path}/a.db", work, meanwhile=meanwhile)
    assert len(found) == 1 and found[0] is not threading.main_thread()
    assert runs == []


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


def test_an_error_of_what_runs_meanwhile_is_raised(tmp_path):
    def meanwhile():
        raise ImportError("a module is missing")

    async def work(queue):
        raise AssertionError("the work must not begin")

    with pytest.raises(ImportError, match="a module is missing"):
        with_queue(f"sqlite:///{tmp_path}/a.db", work, meanwhile=meanwhile)


def test_a_queue_that_cannot_be_opened_is_what_is_reported():
    async def work(queue):
        raise AssertionError("the work must not begin")

    with pytest.raises(UnknownQueue):
        with_queue("nothing://a", work, meanwhile=lambda: None)

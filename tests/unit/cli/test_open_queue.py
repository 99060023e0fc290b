"""A command opens its queue, and imports what it needs meanwhile."""

import threading

import pytest

from shoal.cli.open_queue import with_queue
from shoal.core.errors import UnknownQueue


def test_what_runs_meanwhile_is_in_a_thread_and_over_before_the_work(tmp_path):
    threads = []

    async def work(queue):
        return threads, await queue.runs()

    def meanwhile():
        threads.append(threading.current_thread())

    found, runs = with_queue(f"sqlite:///{tmp_path}/a.db", work, meanwhile=meanwhile)
    assert len(found) == 1 and found[0] is not threading.main_thread()
    assert runs == []


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

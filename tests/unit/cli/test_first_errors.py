from datetime import timedelta

import pytest

from shoal.cli.left_out import retry_words
from shoal.core.model import Counts, Fate, Retry
from shoal.worker.counters import WorkerCounters

TALLY = WorkerCounters(
    errors={"ConnectFailed": 20, "FetchTimeout": 1},
    first_errors={"FetchTimeout": "b.example", "ConnectFailed": "a.example: connection refused\n  traceback"},
    last_retry_at=112.0,
)


def test_a_run_whose_tasks_all_wait_for_a_retry_says_why_and_how_long():
    error = "(ConnectFailed: a.example: connection refused)"
    assert retry_words(Counts(delayed=20), TALLY, 100.0) == f"a retry of 20 tasks, all within 12 s {error}"
    assert retry_words(Counts(delayed=1), TALLY, 112.0) == f"a retry of 1 task {error}"


@pytest.mark.parametrize("counts", [Counts(), Counts(delayed=1, pending=1), Counts(delayed=1, leased=1)])
def test_a_run_with_other_work_does_not_wait_for_retries(counts):
    assert retry_words(counts, TALLY, 100.0) is None


def test_tasks_that_are_delayed_for_another_reason_are_not_called_retries():
    assert retry_words(Counts(delayed=1), WorkerCounters(), 100.0) is None


def test_the_last_retry_of_several_workers_is_the_latest(monkeypatch):
    monkeypatch.setattr("shoal.worker.counters.time.time", lambda: 100.0)
    one, other = WorkerCounters(), WorkerCounters()
    for counters, seconds in ((one, 5), (one, 3), (other, 9)):
        counters.count(Retry(None, "x", after=timedelta(seconds=seconds)), Fate.ACCEPTED)
    assert one.last_retry_at == 105.0 and (one + other).last_retry_at == 109.0

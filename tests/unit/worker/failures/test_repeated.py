"""A page that is fetched again unchanged and fails in the same way is recognized."""

from shoal.core.http import Response
from shoal.core.model import MINUTE, ZERO, Lease, Task
from shoal.worker.failures.repeated import RepeatedFailures


def lease(task_id="t"):
    task = Task(url="https://example.com/")
    return Lease(
        run_id="r", task_id=task_id, token=1, task=task, attempt=1, start_in=ZERO, deadline_in=MINUTE
    )


def page(body):
    return Response(url="https://example.com/", status=200, body=body)


def test_only_the_same_failure_on_the_same_page_is_repeated():
    failures = RepeatedFailures()
    seen = [
        failures.is_repeated(lease(), "KeyError (a.py:1)", page(b"one")),
        failures.is_repeated(lease("other"), "KeyError (a.py:1)", page(b"one")),
        failures.is_repeated(lease(), "KeyError (a.py:1)", page(b"two")),
        failures.is_repeated(lease(), "KeyError (a.py:2)", page(b"two")),
        failures.is_repeated(lease(), "KeyError (a.py:2)", None),
        failures.is_repeated(lease(), "KeyError (a.py:2)", page(b"two")),
    ]
    assert seen == [False, False, False, False, False, True]

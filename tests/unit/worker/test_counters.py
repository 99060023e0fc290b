"""The counters of workers, and the first error of each class."""

from shoal.core.errors import NotNow
from shoal.core.model import Bury, Retry, Task
from shoal.worker.counters import (
    MAX_FIRST_ERRORS,
    POSTPONED,
    WorkerCounters,
    format_counts,
    postponed_words,
)
from tests.unit.builders import make_lease

TASK = Task(url="https://example.com/a?token=secret")
LEASE = make_lease(TASK)


def test_the_first_error_of_each_class_is_remembered_with_its_page_and_its_traceback() -> None:
    tally = WorkerCounters()
    tally.note_error("KeyError", Retry(LEASE, "KeyError: 'a'", traceback="line 7\nKeyError: 'a'"))
    tally.note_error("KeyError", Bury(LEASE, "KeyError: 'b'"))
    tally.note_error("HttpStatus", Bury(LEASE, "HttpStatus: status 404"))
    assert tally.errors == {"KeyError": 2, "HttpStatus": 1}
    assert tally.first_errors == {
        "KeyError": "https://example.com/a?token=…\nline 7\nKeyError: 'a'",
        "HttpStatus": "https://example.com/a?token=…: status 404",
    }


def test_the_sum_of_two_workers_has_the_first_errors_of_both() -> None:
    one, other = WorkerCounters(), WorkerCounters()
    one.note_error("KeyError", Bury(LEASE, "KeyError: one"))
    other.note_error("KeyError", Bury(LEASE, "KeyError: other"))
    other.note_error("ValueError", Bury(LEASE, "ValueError: x"))
    both = one + other
    assert both.errors == {"KeyError": 2, "ValueError": 1}
    assert both.first_errors["KeyError"].endswith("one")
    assert both.first_errors["ValueError"].endswith("x")


def test_the_classes_with_a_first_error_are_bounded() -> None:
    tally = WorkerCounters()
    for number in range(100):
        tally.note_error(f"Error{number}", Bury(LEASE, f"Error{number}: x"))
    assert len(tally.first_errors) == MAX_FIRST_ERRORS
    assert len(tally.errors) == 100


def test_every_reason_to_postpone_a_task_has_words():
    assert set(POSTPONED) == {"NotNow"} | {one.__name__ for one in NotNow.__subclasses__()}
    assert format_counts(postponed_words({"TokensResting": 3})) == "3 waiting for an API token"

"""The stored text of a failed attempt."""

from shoal.core.failures import MAX_TRACEBACK, error_of, failure_text, message_of
from shoal.core.model import Bury, Retry
from tests.unit.builders import make_lease

LEASE = make_lease()


def test_the_traceback_of_a_dead_letter_is_below_its_error() -> None:
    text = failure_text(Bury(LEASE, "KeyError: a", traceback="one\ntwo"))
    assert text == "KeyError: a\none\ntwo"
    assert error_of(text) == "KeyError: a"


def test_the_traceback_of_a_retry_is_not_stored() -> None:
    assert failure_text(Retry(LEASE, "KeyError: a", traceback="one\ntwo")) == "KeyError: a"


def test_what_no_store_accepts_is_removed_and_the_size_is_bounded() -> None:
    text = failure_text(Bury(LEASE, "E: a", traceback="\0\udcff" + "x" * 10_000))
    assert "\0" not in text
    assert text.encode().decode() == text
    assert len(text) <= MAX_TRACEBACK + len("E: a\n")


def test_an_error_whose_message_fails_has_one_all_the_same() -> None:
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise ValueError("no message")

    assert "__str__ fails" in message_of(Unreadable())
    assert message_of(ValueError("a")) == "a"

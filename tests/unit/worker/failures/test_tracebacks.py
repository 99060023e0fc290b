"""Tracebacks show the user's code, fold the libraries, and are bounded and without secrets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.core.failures import MAX_TRACEBACK
from shoal.worker.failures import tracebacks
from shoal.worker.failures.tracebacks import TracebackFormatter, library_of


def raised(call: Callable[..., Any], *args: Any) -> Exception:
    try:
        call(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def load_twice(text: str) -> Any:
    return json.loads(text)


def test_the_frames_of_a_library_are_one_line_that_names_the_innermost() -> None:
    error = raised(load_twice, "")
    lines = TracebackFormatter().format(error).split("\n")
    assert 'test_tracebacks.py", line' in lines[0]
    assert lines[-3].strip() == "return json.loads(text)"
    assert lines[-2].startswith("  … 3 frames in json (decoder.py:")
    assert lines[-1].startswith("json.decoder.JSONDecodeError: Expecting value")


def test_the_line_of_an_error_is_in_the_users_code_and_not_in_the_library() -> None:
    found = TracebackFormatter().find_line(raised(load_twice, ""))
    assert found.startswith(" (test_tracebacks.py:")
    assert found.endswith(" in load_twice)")


def test_chained_exceptions_are_kept() -> None:
    def chained() -> None:
        try:
            raise KeyError("price")
        except KeyError as error:
            raise ValueError("no price") from error

    def handled() -> None:
        try:
            raise KeyError("price")
        except KeyError:
            raise ValueError("no price")  # noqa: B904

    text = TracebackFormatter().format(raised(chained))
    assert text.index("KeyError: 'price'") < text.index("which is the cause of:") < text.index("no price")
    assert "and while that was handled:" in TracebackFormatter().format(raised(handled))


def test_a_group_shows_its_members() -> None:
    def fail() -> None:
        raise ExceptionGroup("two", [KeyError("a"), ValueError("b")])

    text = TracebackFormatter().format(raised(fail))
    assert "ExceptionGroup: two (2 sub-exceptions)" in text
    assert "  | KeyError: 'a'" in text
    assert "  | ValueError: b" in text


def test_an_error_without_code_of_the_user_has_no_traceback() -> None:
    assert TracebackFormatter().format(ValueError("never raised")) == ""
    # As if this file were part of a library.
    error = raised(json.loads, "")
    assert error.__traceback__ is not None
    assert TracebackFormatter().format(error.with_traceback(error.__traceback__.tb_next)) == ""


def test_a_deep_recursion_and_a_long_message_are_bounded() -> None:
    def even(left: int) -> None:
        if left == 0:
            raise ValueError("xxx " * 100_000 + "\n" * 1_000)
        odd(left - 1)

    def odd(left: int) -> None:
        even(left - 1)

    text = TracebackFormatter().format(raised(even, 500))
    assert len(text) <= MAX_TRACEBACK
    assert "frames left out" in text
    assert "ValueError: xxx" in text


def test_equal_frames_in_a_row_are_shown_once() -> None:
    def recurse(left: int) -> None:
        recurse(left - 1) if left else json.loads("")

    text = TracebackFormatter().format(raised(recurse, 500))
    assert "  … 500 frames more of the same" in text
    assert len(text) < 1_000


def test_a_chain_of_many_exceptions_is_bounded() -> None:
    def chain(left: int) -> None:
        try:
            if left:
                chain(left - 1)
            raise ValueError("first")
        except ValueError as error:
            raise ValueError(f"number {left}") from error

    text = TracebackFormatter().format(raised(chain, 40))
    assert len(text) <= MAX_TRACEBACK
    assert text.endswith("ValueError: number 40")


def test_secrets_and_control_characters_are_removed_before_lines_are_cut() -> None:
    def fail() -> None:
        raise ValueError("\x1b[31m" + "x" * 295 + " password=hunter2hunter2")

    text = TracebackFormatter(redact=lambda text: text.replace("hunter2", "…")).format(raised(fail))
    assert "hunter" not in text
    assert "\x1b" not in text


def test_paths_are_relative_to_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    tracebacks._known_folders.cache_clear()
    try:
        assert tracebacks.shown_path(f"{tmp_path}/scrapers/books.py") == "scrapers/books.py"
        assert tracebacks.shown_path("/home/someone/lib/prices.py") == "~/lib/prices.py"
        assert tracebacks.shown_path("/opt/books.py") == "/opt/books.py"
    finally:
        tracebacks._known_folders.cache_clear()


def test_libraries_are_distinguished_from_the_users_code() -> None:
    assert library_of(json.__file__) == "json"
    assert library_of(tracebacks.__file__) == "shoal"
    assert library_of(pytest.__file__) == "pytest"
    assert library_of("/app/.venv/lib/python3.12/site-packages/lxml/etree.py") == "lxml"
    assert library_of("/app/books.py") is None


def test_a_scraper_that_is_installed_as_a_library_is_the_users_code() -> None:
    error = raised(load_twice, "")
    file = "/app/lib/python3.12/site-packages/shop/books.py"
    assert TracebackFormatter.for_code(file).own == "shop"
    assert TracebackFormatter("json").format(error).count("… ") == 0


def test_the_name_of_an_error_has_no_made_up_module() -> None:
    def fail() -> None:
        raise type("NoPrice", (Exception,), {"__module__": "shoal_scraper_books_0123abcd"})("x")

    assert TracebackFormatter().format(raised(fail)).endswith("\nNoPrice: x")

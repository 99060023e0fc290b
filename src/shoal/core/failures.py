"""The stored text of a failed attempt: its error in the first line, and its traceback below."""

import traceback
from pathlib import Path

from shoal.core.model import Bury, Retry
from shoal.core.text import printable

TRACEBACK = "traceback"  # the field of log events that has several lines
MAX_ERROR = 2_000  # characters of an error's text that are stored
MAX_TRACEBACK = 4_000  # characters of a traceback that are stored


def error_text(error: str | BaseException) -> str:
    """Return an error as one line that any store accepts: the class and the message."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    line = printable(" ".join(text.replace("\0", "").split()).removesuffix(":"))
    return line.encode(errors="replace").decode()[:MAX_ERROR]


def failure_text(outcome: Retry | Bury) -> str:
    """Return the text that is stored in the history of a task.

    Only the last attempt has its traceback in it: while a site fails, every task would hold several copies.
    """
    error = error_text(outcome.error)
    if not isinstance(outcome, Bury) or not outcome.traceback:
        return error
    traceback = outcome.traceback.replace("\0", "")[:MAX_TRACEBACK]
    return f"{error}\n{traceback}".encode(errors="replace").decode()


def message_of(error: BaseException) -> str:
    """Return the message of an error, even of one whose `__str__` fails: it is the user's code."""
    try:
        return str(error)
    except (Exception, SystemExit, KeyboardInterrupt):
        return "its message cannot be read, because its __str__ fails"


def error_with_place(error: BaseException) -> str:
    """Return an error of the user's code as its class, its message, and the line that raised it."""
    codes = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    where = f" ({Path(codes[-1][0]).name}:{codes[-1][1]})" if codes else ""
    return f"{type(error).__name__}: {message_of(error)}".removesuffix(": ") + where


def error_of(text: str) -> str:
    """Return the error of a stored text, without the traceback."""
    return text.partition("\n")[0]

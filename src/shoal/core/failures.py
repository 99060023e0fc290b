"""The stored text of a failed attempt: its error in the first line, and its traceback below."""

from shoal.core.model import Bury, Retry, error_text

TRACEBACK = "traceback"  # the field of log events that has several lines
MAX_TRACEBACK = 4_000  # characters of a traceback that are stored


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


def error_of(text: str) -> str:
    """Return the error of a stored text, without the traceback."""
    return text.partition("\n")[0]

"""Columns as PostgreSQL's array literals, in which they are sent.

asyncpg looks up other array types than text[] in the catalog, for each connection, in 11 ms of the server. So
arrays are sent as text, and a parameter's type says how it is read: `text::int[]`.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import cast

SEPARATOR, IS_NULL = "\x01", "\x02"
# The types of `joined_texts` and of texts of one character, as arguments of functions.
JOINED = "string_to_array({}::text, E'\\x01', E'\\x02')"
LETTERS = "string_to_array({}::text, NULL)"


def int_array(column: Iterable[int]) -> str:
    """Return an array literal of integers."""
    return f"{{{','.join(map(str, column))}}}"


def bool_array(column: Iterable[bool]) -> str:
    """Return an array literal of truth values."""
    return f"{{{','.join('t' if value else 'f' for value in column)}}}"


def bytes_array(column: Iterable[str]) -> str:
    """Return an array literal of bytes given as hexadecimal digits."""
    body = '","\\\\x'.join(column)
    return f'{{"\\\\x{body}"}}' if body else "{}"


def text_array(column: Sequence[str | None]) -> str | None:
    """Return an array literal of texts; None if all are None."""
    if not column:
        return "{}"
    if None in column:
        return f"{{{','.join(map(_text, column))}}}" if any(text is not None for text in column) else None
    # Escaped all at once. No text has the separator in it: PostgreSQL stores no NUL, and refuses it here.
    body = "\0".join(cast("Sequence[str]", column))
    if body.count("\0") != len(column) - 1:
        return f"{{{','.join(map(_text, column))}}}"
    body = body.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{body}"}}'


def interval_array(column: Sequence[timedelta | None]) -> str | None:
    """Return an array literal of durations; None if all are None."""
    if not any(duration is not None for duration in column) and column:
        return None
    return f"{{{','.join(map(_interval, column))}}}"


def joined_texts(column: Sequence[str | None]) -> str | None:
    """Return texts as one, which the server splits in a third of the time of an array; None if all are None.

    They are JSON, canonical URLs and checked keys: not empty, and without control characters.
    """
    if None in column:
        if not any(column):
            return None
        column = [IS_NULL if text is None else text for text in column]
    body = SEPARATOR.join(cast("Sequence[str]", column))
    if body.count(SEPARATOR) < max(len(column), 1):
        return body
    # Of JSON that was not encoded here: it may have control characters, though it must not.
    return SEPARATOR.join(str(text).replace(SEPARATOR, "\\u0001") for text in column)


def _text(text: str | None) -> str:
    if text is None:
        return "NULL"
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    return f'"{text}"'


def _interval(duration: timedelta | None) -> str:
    return "NULL" if duration is None else f'"{duration.total_seconds():.6f} s"'

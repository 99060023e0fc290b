"""Columns as PostgreSQL's array literals.

The driver inspects every element of a list that it encodes, which costs more than all the rest of a call. A
literal is one string to it, and the server reads it as fast as the binary form. A column that is None all the
way down is sent as one None.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta


def numbers(column: Iterable[int]) -> str:
    """Return a column of whole numbers."""
    return f"{{{','.join(map(str, column))}}}"


def hexes(column: Iterable[str]) -> str:
    """Return a column of bytes that are given as hexadecimal digits."""
    body = '","\\\\x'.join(column)
    return f'{{"\\\\x{body}"}}' if body else "{}"


def texts(column: Sequence[str | None]) -> str | None:
    """Return a column of texts."""
    if not any(text is not None for text in column) and column:
        return None
    return f"{{{','.join(map(_text, column))}}}"


def spans(column: Sequence[timedelta | None]) -> str | None:
    """Return a column of durations."""
    if not any(span is not None for span in column) and column:
        return None
    return f"{{{','.join(map(_span, column))}}}"


def _text(text: str | None) -> str:
    if text is None:
        return "NULL"
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    return f'"{text}"'


def _span(span: timedelta | None) -> str:
    return "NULL" if span is None else f'"{span.total_seconds():.6f} s"'

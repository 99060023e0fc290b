"""Cases of a test's parameters."""

from collections.abc import Iterable
from typing import Any

import pytest


def long(*values: Any) -> list[Any]:
    """Return these values as cases of the long tier; a tuple has a value for each parameter."""
    return [
        pytest.param(*value, marks=pytest.mark.long)
        if isinstance(value, tuple)
        else pytest.param(value, marks=pytest.mark.long)
        for value in values
    ]


def long_but(short: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return all cases, of which those that are not `short` are of the long tier."""
    return [*short, *long(*(case for case in cases if case not in tuple(short)))]

"""Cases of a test's parameters."""

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

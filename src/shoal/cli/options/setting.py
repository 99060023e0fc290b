"""Reads a setting as it is typed."""

from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.values import read_typed


def read_change(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; the value is parsed as JSON if possible, else taken as text; None and none are null."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidSetting("--set", f"takes KEY=VALUE such as rate=5/s, not {text!r}")
    return key.strip(), read_typed(value)

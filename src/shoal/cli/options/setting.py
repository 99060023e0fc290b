"""Reads a setting as it is typed."""

from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting


def read_change(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; the value is parsed as JSON if possible, else taken as text; None and none are null."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidSetting("--set", f"takes KEY=VALUE such as rate=5/s, not {text!r}")
    if value.strip().lower() == "none":
        return key.strip(), None
    try:
        return key.strip(), msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key.strip(), value.strip()

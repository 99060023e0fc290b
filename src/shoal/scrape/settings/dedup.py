"""The setting `dedup`: skip tasks that earlier runs of the scraper have queued."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shoal.core.errors import InvalidSetting, shorten
from shoal.core.values import hint, read_positive_duration, read_words

_OFF = ("off", "none", "false", "no")
_WORDS = ("lifetime", "steps")
_EXAMPLE = "write '30d', '30d steps=article', or off"


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """How long other runs skip a task after it was queued, and for which steps; all steps if empty."""

    lifetime: timedelta
    steps: tuple[str, ...] = ()


def read_dedup(key: str, value: Any) -> DedupSettings | None:
    """Read "30d", "30d steps=article,comment", or a mapping of lifetime and steps; None or "off" for none."""
    if value is None or value is False or (isinstance(value, str) and value.lower() in _OFF):
        return None
    if isinstance(value, DedupSettings):
        return value
    if isinstance(value, str):
        return _from_mapping(key, dict(_pair(word) for word in value.split()))
    if isinstance(value, Mapping):
        return _from_mapping(key, value)
    return _from_mapping(key, {"lifetime": value})


def _pair(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals:
        return "lifetime", word
    return name, value.split(",") if name == "steps" else value


def _from_mapping(key: str, given: Mapping[str, Any]) -> DedupSettings:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"has no {str(name)!r}. {hint(str(name), _WORDS)}")
    if "lifetime" not in given:
        raise InvalidSetting(key, f"needs a duration; {_EXAMPLE}")
    try:
        lifetime = read_positive_duration(key, given["lifetime"])
    except InvalidSetting as error:
        got = shorten(repr(given["lifetime"]), 60)
        raise InvalidSetting(key, f"must be a duration, got {got}; {_EXAMPLE}") from error
    return DedupSettings(lifetime=lifetime, steps=read_words(f"{key}.steps", given.get("steps", ())))

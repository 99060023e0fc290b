"""The setting `dedup`: skip tasks that earlier runs of the scraper have queued."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.values import read_positive_duration, read_words
from shoal.scrape.settings.compact import CompactSetting

_EXAMPLE = "'30d', '30d steps=article', or off"


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """How long other runs skip a task after it was queued, and for which steps; all steps if empty."""

    lifetime: timedelta
    steps: tuple[str, ...] = ()


def read_dedup(key: str, value: Any) -> DedupSettings | None:
    """Read "30d", "30d steps=article,comment", or a mapping of lifetime and steps; None or "off" for none."""
    return _DEDUP.read(key, value)


def _read_lifetime(key: str, value: Any) -> timedelta:
    try:
        return read_positive_duration(key, value)
    except InvalidSetting as error:
        got = shorten(repr(value), 60)
        raise InvalidSetting(key, f"must be a duration, got {got}; write {_EXAMPLE}") from error


def _build(key: str, fields: dict[str, Any]) -> DedupSettings:
    if "lifetime" not in fields:
        raise InvalidSetting(key, f"needs a duration; write {_EXAMPLE}")
    return DedupSettings(**fields)


_DEDUP = CompactSetting(
    kind=DedupSettings,
    fields={"lifetime": _read_lifetime, "steps": read_words},
    example=_EXAMPLE,
    main="lifetime",
    name_of=lambda word: None if "=" in word else "lifetime",
    lists=("steps",),
    build=_build,
)

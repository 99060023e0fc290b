"""The setting `sessions`: the number of sessions, how long each is used, and its browser profile."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.values import hint, read_choice, read_positive_duration, read_whole
from shoal.scrape.settings.compact import CompactSetting, optional

BROWSERS = ("chrome", "edge", "firefox", "opera", "safari")
MAX_SIZE = 1_000
MAX_LOGINS = 100
_PROFILE = re.compile(r"([a-z]+)([0-9.]*)")
_SIZE = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How sessions are created and replaced."""

    size: int = 10
    max_uses: int | None = None
    max_age: timedelta | None = None
    profiles: tuple[str, ...] = ()  # browser profiles, used in turn; empty: Shoal's own identity
    per: Literal["host", "run"] = "host"
    logins: int = 1  # maximum concurrent logins


def _read_profiles(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Iterable):
        raise InvalidSetting(key, f"must be a browser such as 'chrome', got {shorten(repr(value))}")
    return tuple(_read_profile(key, word) for word in words)


def _read_profile(key: str, word: Any) -> str:
    found = _PROFILE.fullmatch(word.lower()) if isinstance(word, str) else None
    if not found or found[1] not in BROWSERS:
        known = hint(found[1], BROWSERS) if found else f"Known are {', '.join(BROWSERS)}."
        raise InvalidSetting(key, f"must be a browser such as 'chrome' or 'firefox152'. {known}")
    return found[0]


def _build(key: str, fields: dict[str, Any]) -> SessionSettings:
    return SessionSettings(profiles=fields.pop("profile", ()), **fields)


_SESSIONS = CompactSetting(
    kind=SessionSettings,
    fields={
        "size": partial(read_whole, least=1, most=MAX_SIZE),
        "max_uses": optional(partial(read_whole, least=1)),
        "max_age": optional(read_positive_duration),
        "profile": _read_profiles,
        "per": partial(read_choice, known=("host", "run")),
        "logins": partial(read_whole, least=1, most=MAX_LOGINS),
    },
    example="10, or '10 max_uses=500 profile=chrome'",
    main="size",
    name_of=lambda word: "size" if _SIZE.fullmatch(word) else None,
    lists=("profile",),
    build=_build,
)


def read_sessions(key: str, value: Any) -> SessionSettings | None:
    """Read sessions: 10, "10 max_uses=500 profile=chrome", or a mapping of the same."""
    return _SESSIONS.read(key, value)

"""The setting `sessions`: the number of sessions, how long each is used, and its browser profile."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from shoal.core.errors import InvalidSetting, shorten
from shoal.core.values import hint, read_choice, read_positive_duration, read_whole

BROWSERS = ("chrome", "edge", "firefox", "opera", "safari")
MAX_SIZE = 1_000
_OFF, _ON = ("off", "none", "false", "no"), ("on", "true", "yes")
_WORDS = ("size", "max_uses", "max_age", "profile", "per", "logins")
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


def read_sessions(key: str, value: Any) -> SessionSettings | None:
    """Read sessions: 10, "10 max_uses=500 profile=chrome", or a mapping of the same."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() in _OFF):
        return None
    if isinstance(value, SessionSettings):
        return value
    if value is True or (isinstance(value, str) and value.strip().lower() in _ON):
        return SessionSettings()
    if isinstance(value, str):
        return _from_mapping(key, _parse_text(key, value))
    return _from_mapping(key, value if isinstance(value, Mapping) else {"size": value})


def _parse_text(key: str, text: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for word in text.split():
        name, equals, rest = word.partition("=")
        if not equals and _SIZE.fullmatch(word):
            name, rest = "size", word
        if name in given or not rest:
            raise InvalidSetting(
                key, f"must look like '10 max_uses=500 profile=chrome', got {shorten(repr(text))}"
            )
        given[name] = rest.split(",") if name == "profile" else rest
    return given


def _from_mapping(key: str, given: Mapping[str, Any]) -> SessionSettings:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"have no {shorten(repr(name))}. {hint(str(name), _WORDS)}")
    uses, age = given.get("max_uses"), given.get("max_age")
    per = read_choice(f"{key}.per", given.get("per", "host"), ("host", "run"))
    return SessionSettings(
        size=read_whole(f"{key}.size", given.get("size", 10), least=1, most=MAX_SIZE),
        max_uses=None if uses is None else read_whole(f"{key}.max_uses", uses, least=1),
        max_age=None if age is None else read_positive_duration(f"{key}.max_age", age),
        profiles=_read_profiles(f"{key}.profile", given.get("profile")),
        per="run" if per == "run" else "host",
        logins=read_whole(f"{key}.logins", given.get("logins", 1), least=1, most=100),
    )


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

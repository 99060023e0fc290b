"""The setting `sessions`: how many visitors there are, how long each is used, and which browser it wears."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from shoal.core.errors import InvalidSetting, shorten
from shoal.core.values import hint, read_choice, read_positive_duration, read_whole

BROWSERS = ("chrome", "edge", "firefox", "opera", "safari")
MOST = 1_000
_OFF, _ON = ("off", "none", "false", "no"), ("on", "true", "yes")
_WORDS = ("size", "max_uses", "max_age", "profile", "per", "logins")
_PROFILE = re.compile(r"([a-z]+)([0-9.]*)")
_SIZE = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How visitors are made and replaced."""

    size: int = 10
    max_uses: int | None = None
    max_age: timedelta | None = None
    profiles: tuple[str, ...] = ()  # of browsers, taken in turn; none: Shoal under its own name
    per: Literal["host", "run"] = "host"
    logins: int = 1  # at once


def read_sessions(key: str, value: Any) -> SessionSettings | None:
    """Read sessions: 10, "10 max_uses=500 profile=chrome", or the same by name."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() in _OFF):
        return None
    if isinstance(value, SessionSettings):
        return value
    if value is True or (isinstance(value, str) and value.strip().lower() in _ON):
        return SessionSettings()
    if isinstance(value, str):
        return _named(key, _spelled(key, value))
    return _named(key, value if isinstance(value, Mapping) else {"size": value})


def _spelled(key: str, text: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for word in text.split():
        name, equals, rest = word.partition("=")
        if not equals and _SIZE.fullmatch(word):
            name, rest = "size", word
        if name in given or not rest:
            raise InvalidSetting(
                key, f"are written such as '10 max_uses=500 profile=chrome', got {shorten(repr(text))}"
            )
        given[name] = rest.split(",") if name == "profile" else rest
    return given


def _named(key: str, given: Mapping[str, Any]) -> SessionSettings:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"have no {shorten(repr(name))}. {hint(str(name), _WORDS)}")
    uses, age = given.get("max_uses"), given.get("max_age")
    per = read_choice(f"{key}.per", given.get("per", "host"), ("host", "run"))
    return SessionSettings(
        size=read_whole(f"{key}.size", given.get("size", 10), least=1, most=MOST),
        max_uses=None if uses is None else read_whole(f"{key}.max_uses", uses, least=1),
        max_age=None if age is None else read_positive_duration(f"{key}.max_age", age),
        profiles=_profiles(f"{key}.profile", given.get("profile")),
        per="run" if per == "run" else "host",
        logins=read_whole(f"{key}.logins", given.get("logins", 1), least=1, most=100),
    )


def _profiles(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Iterable):
        raise InvalidSetting(key, f"must be a browser such as 'chrome', got {shorten(repr(value))}")
    return tuple(_profile(key, word) for word in words)


def _profile(key: str, word: Any) -> str:
    found = _PROFILE.fullmatch(word.lower()) if isinstance(word, str) else None
    if not found or found[1] not in BROWSERS:
        known = hint(found[1], BROWSERS) if found else f"Known are {', '.join(BROWSERS)}."
        raise InvalidSetting(key, f"must be a browser such as 'chrome' or 'firefox152'. {known}")
    return found[0]

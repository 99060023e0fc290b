"""The settings `sessions` and `browser`: the clients that a site sees."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from shoal.core.browser_settings import BLOCKABLE, BrowserSettings
from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.values import hint, read_choice, read_positive_duration, read_size, read_whole
from shoal.scrape.settings.declaration import CompactSetting, optional

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


def _build_sessions(key: str, fields: dict[str, Any]) -> SessionSettings:
    return SessionSettings(profiles=fields.pop("profile", ()), **fields)


read_sessions = CompactSetting(
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
    build=_build_sessions,
).read


MAX_TABS = 64
MIN_MEMORY = 128 << 20
_NAMED = re.compile(r"(?:^|\s)(wait|block|context|max_pages|tabs|memory|executable)=")
_BROWSER_EXAMPLE = "{'wait': '.row', 'context': 'session'}, or as text wait=.row context=session"


def read_browser(key: str, value: Any) -> BrowserSettings:
    """Read the browser settings: a mapping, or text such as "wait=.row block=images tabs=2"."""
    if value is None:
        return BrowserSettings()
    if isinstance(value, BrowserSettings):
        return value
    given = _parse_browser(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise InvalidSetting(key, f"takes {_BROWSER_EXAMPLE}, got {shorten(repr(value))}")
    for name in given:
        if name not in _BROWSER_READERS:
            raise InvalidSetting(key, f"has no {name!r}. {hint(str(name), tuple(_BROWSER_READERS))}")
    return BrowserSettings(
        **{name: _BROWSER_READERS[name](f"{key}.{name}", one) for name, one in given.items()}
    )


def _parse_browser(text: str) -> dict[str, str]:
    """Return the settings in a text; a value without a name is `wait`."""
    first, *rest = _NAMED.split(text.strip())
    named = dict(zip(rest[::2], (value.strip() for value in rest[1::2]), strict=True))
    return {"wait": first.strip()} | named if first.strip() else named


def _read_wait(key: str, value: Any) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value.strip()
    raise InvalidSetting(key, f"must be load, dom, idle or a CSS selector, got {shorten(repr(value))}")


def _read_block(key: str, value: Any) -> frozenset[str]:
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if value is None or value is False or words in (["none"], ["off"]):
        return frozenset()
    if not isinstance(words, Iterable):
        raise InvalidSetting(key, f"takes some of {', '.join(BLOCKABLE)}, or none, got {value!r}")
    return frozenset(read_choice(key, word, BLOCKABLE) for word in words)


def _read_memory(key: str, value: Any) -> int:
    size = read_size(key, value)
    if size < MIN_MEMORY:
        raise InvalidSetting(key, "must be at least 128 MB: a browser needs that much itself")
    return size


def _read_executable(key: str, value: Any) -> Path:
    path = Path(str(value))
    if not path.is_file():
        raise InvalidSetting(key, f"finds no program at {path}")
    return path


_BROWSER_READERS: dict[str, Callable[[str, Any], Any]] = {
    "wait": _read_wait,
    "block": _read_block,
    "context": partial(read_choice, known=("task", "session")),
    "max_pages": partial(read_whole, least=1),
    "tabs": partial(read_whole, least=1, most=MAX_TABS),
    "memory": _read_memory,
    "executable": _read_executable,
}

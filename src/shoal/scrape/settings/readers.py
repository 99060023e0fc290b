"""Readers of the settings that need no class of their own."""

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO
from shoal.core.patterns import searched
from shoal.core.text import shorten
from shoal.core.values import (
    read_choice,
    read_duration,
    read_positive_duration,
    read_whole,
    read_words,
)
from shoal.registry.installed import installed
from shoal.scrape.scope import Scope

FETCHERS = ("http", "browser", "auto")
FAILED_PAGES = timedelta(days=7)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def read_delay(key: str, value: Any) -> timedelta:
    """Read the time between two requests to a host; None for none."""
    return ZERO if value is None else read_duration(key, value)


def read_fetch(key: str, value: Any) -> str | None:
    """Read the fetcher: "http", "browser", "auto" or a plugin's, or None for steps that fetch nothing."""
    if value is None or value == "none":
        return None
    if value in FETCHERS:
        return str(value)
    return read_choice(key, value, (*FETCHERS, *(one.name for one in installed("shoal.fetchers"))))


def read_headers(key: str, value: Any) -> Mapping[str, str]:
    """Read the names and values of headers; an error does not show a value, which may be a secret."""
    if not isinstance(value, Mapping):
        raise InvalidSetting(key, "must be names and values, such as {'Accept-Language': 'en'}")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidSetting(key, f"has an invalid header name: {shorten(repr(name))}")
        if not isinstance(text, str) or not text.isprintable():
            raise InvalidSetting(key, f"must be one line of text for {name}")
    return MappingProxyType(dict(value))


def read_statuses(key: str, value: Any) -> frozenset[int]:
    """Read error statuses: 404, [404, 410], or as text 404,410."""
    if isinstance(value, str):  # as it is typed: 404,410
        value = value.replace(",", " ").split() or [value]
    elif value is None:
        value = ()
    given = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return frozenset(read_whole(key, status, least=100, most=599) for status in given)


class StopWhen(msgspec.Struct, frozen=True):
    """After how many tasks of a step that fail alike a run stops, and whether pages without items count."""

    last: int = 200
    empty: bool = False

    def __str__(self) -> str:
        return f"{self.last}, empty" if self.empty else str(self.last)


def read_stop_when(key: str, value: Any) -> StopWhen | None:
    """Read a number of tasks, "empty" or both, as in "100, empty"; None or "off" for no limit."""
    if value in (None, False, "off"):
        return None
    if isinstance(value, StopWhen):
        return value
    words = value.replace(",", " ").split() if isinstance(value, str) else [value]
    counts = [word for word in words if word != "empty"]
    if len(counts) > 1 or not words:
        raise InvalidSetting(key, f"is a number of tasks, 'empty' or both, as in '100, empty'; got {value!r}")
    last = read_whole(key, counts[0], least=20) if counts else StopWhen().last
    return StopWhen(last, empty="empty" in words)


def read_content(key: str, value: Any) -> tuple[str, ...]:
    """Read types of responses: "any", "application/pdf image/*" or a list; None for no others than text."""
    if value is None or value == "any":
        return ("*",) if value else ()
    words = value.replace(",", " ").split() if isinstance(value, str) else read_words(key, value)
    if not all(word.count("/") == 1 for word in words):
        raise InvalidSetting(
            key, f"must be any, or types such as 'application/pdf', got {shorten(repr(value))}"
        )
    return tuple(word.lower() for word in words)


def read_pattern(key: str, value: Any) -> re.Pattern[str]:
    """Read a regular expression that cannot take long on a hostile page."""
    pattern = value.pattern if isinstance(value, re.Pattern) else value
    if not isinstance(pattern, str) or not pattern:
        raise InvalidSetting(key, f"must be a regular expression as text, got {shorten(repr(value))}")
    try:
        found = value if isinstance(value, re.Pattern) else re.compile(pattern, re.IGNORECASE)
        searched(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSetting(key, f"is not a regular expression: {error}") from error
    except ValueError as error:
        raise InvalidSetting(key, str(error)) from error
    return found


def read_line(key: str, value: Any) -> str:
    """Read one line of text."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidSetting(key, f"must be one line of text, got {shorten(repr(value))}")
    return value.strip()


def read_private(key: str, value: Any) -> tuple[str, ...]:
    """Read hosts and networks whose private addresses are allowed."""
    words = read_words(key, value)
    for word in words:
        if "://" in word:
            bare = word.split("://", 1)[1].split("/", 1)[0]
            raise InvalidSetting(key, f"must name hosts or networks without a scheme; write {bare!r}")
    return words


def read_failed_pages(key: str, value: Any) -> timedelta | None:
    """Read how long the pages of dead letters are kept; None or "off" for not at all."""
    word = value.lower() if isinstance(value, str) else value
    if word in ("on", True):
        return FAILED_PAGES
    return None if word in (None, False, "off", "none") else read_positive_duration(key, value)


def read_scrapy(key: str, value: Any) -> Mapping[str, Any]:
    """Read settings of a Scrapy project, whose names are upper-case."""
    if not isinstance(value, Mapping):
        raise InvalidSetting(key, f"must be names and values, got {shorten(repr(value), 60)}")
    for name in value:
        if not isinstance(name, str) or not name.isupper():
            raise InvalidSetting(
                key, f"has the name {shorten(repr(name))}; settings of Scrapy are upper-case"
            )
    return dict(value)


def read_skip(key: str, value: Any) -> Scope | None:
    """Read patterns of pages that are not fetched."""
    words = () if value is None else read_words(key, value)
    for word in words:
        if word in ("any", "host", "site"):
            raise InvalidSetting(
                key,
                f"takes patterns of pages to skip, such as '*/login*'; {word!r} is for scope. "
                "To skip nothing, write skip=none",
            )
    return Scope.read(key, list(words)) if words else None

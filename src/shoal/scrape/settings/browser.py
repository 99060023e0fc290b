"""The setting `browser`: what a browser waits for and blocks, and when it is restarted."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from shoal.core.browser_settings import BLOCKABLE, BrowserSettings
from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.values import hint, read_choice, read_size, read_whole

MAX_TABS = 64
MIN_MEMORY = 128 << 20
_NAMED = re.compile(r"(?:^|\s)(wait|block|context|max_pages|tabs|memory|executable)=")
_EXAMPLE = "{'wait': '.row', 'context': 'session'}, or as text wait=.row context=session"


def read_browser(key: str, value: Any) -> BrowserSettings:
    """Read the browser settings: a mapping, or text such as "wait=.row block=images tabs=2"."""
    if value is None:
        return BrowserSettings()
    if isinstance(value, BrowserSettings):
        return value
    given = _parse_text(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise InvalidSetting(key, f"takes {_EXAMPLE}, got {shorten(repr(value))}")
    for name in given:
        if name not in _READERS:
            raise InvalidSetting(key, f"has no {name!r}. {hint(str(name), tuple(_READERS))}")
    return BrowserSettings(**{name: _READERS[name](f"{key}.{name}", one) for name, one in given.items()})


def _parse_text(text: str) -> dict[str, str]:
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


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "wait": _read_wait,
    "block": _read_block,
    "context": partial(read_choice, known=("task", "session")),
    "max_pages": partial(read_whole, least=1),
    "tabs": partial(read_whole, least=1, most=MAX_TABS),
    "memory": _read_memory,
    "executable": _read_executable,
}

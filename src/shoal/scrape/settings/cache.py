"""The settings `cache`, `warc` and `replay`: a response cache, a recording to write, and one to replay."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting, shorten
from shoal.core.model import MINUTE
from shoal.core.values import hint, read_positive_duration, read_size

CACHE_SIZE = 1 << 30
ON_DISK = "disk:"
WARC = ".warc.gz"
_OFF, _ON = ("off", "none", "false", "no"), ("on", "true", "yes")
_WORDS = ("lifetime", "place", "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The lifetime, location and maximum size in bytes of a response cache."""

    lifetime: timedelta = MINUTE
    folder: Path | None = None  # None: in the queue, shared by all workers
    size: int = CACHE_SIZE


def read_cache(key: str, value: Any) -> CacheSettings | None:
    """Read a cache: True, "60s", "10m disk:pages 2GB", or a mapping of lifetime, place and size."""
    if value is None or value is False or (isinstance(value, str) and value.lower() in _OFF):
        return None
    if isinstance(value, CacheSettings):
        return value
    if value is True or (isinstance(value, str) and value.lower() in _ON):
        return CacheSettings()
    if isinstance(value, Mapping):
        return _from_mapping(key, value)
    return _parse_text(key, value) if isinstance(value, str) else _from_mapping(key, {"lifetime": value})


def read_warc(key: str, value: Any) -> Path:
    """Read the path of a WARC file to write."""
    path = _path(key, value)
    if not path.name.endswith(WARC) or path.name == WARC:
        raise InvalidSetting(key, f"must be a file that ends in {WARC}, got {shorten(repr(str(value)))}")
    if not path.parent.is_dir():
        raise InvalidSetting(key, f"is in a folder that does not exist. Run: mkdir -p {path.parent}")
    return path


def read_replay(key: str, value: Any) -> Path:
    """Read the path of an existing recording."""
    path = _path(key, value)
    if not path.exists():
        raise InvalidSetting(key, f"found no recording at {path}. Make one: shoal run … --warc {path}")
    return path


def _parse_text(key: str, text: str) -> CacheSettings:
    given: dict[str, Any] = {}
    for word in text.split():
        name = (
            "place"
            if word.startswith(ON_DISK) or word == "queue"
            else "size"
            if _is_size(word)
            else "lifetime"
        )
        if name in given:
            raise InvalidSetting(
                key, f"takes one {name}, such as '60s' or '10m disk:pages 2GB', got {text!r}"
            )
        given[name] = word
    return _from_mapping(key, given)


def _from_mapping(key: str, given: Mapping[str, Any]) -> CacheSettings:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"has no {name!r}. {hint(str(name), _WORDS)}")
    return CacheSettings(
        lifetime=read_positive_duration(key, given.get("lifetime", MINUTE)),
        folder=_folder(key, given.get("place", "queue")),
        size=read_size(key, given.get("size", CACHE_SIZE)),
    )


def _folder(key: str, place: Any) -> Path | None:
    if place == "queue":
        return None
    if isinstance(place, str) and place.startswith(ON_DISK) and place != ON_DISK:
        return Path(place.removeprefix(ON_DISK))
    raise InvalidSetting(
        key, f"must be in 'queue' or a folder such as 'disk:pages', got {shorten(repr(place))}"
    )


def _is_size(word: str) -> bool:
    return word[-1:].lower() == "b" and word[:1].isdigit()


def _path(key: str, value: Any) -> Path:
    if isinstance(value, Path) or (isinstance(value, str) and value.strip() and value.isprintable()):
        return Path(value)
    raise InvalidSetting(key, f"must be a file name, got {shorten(repr(value))}")

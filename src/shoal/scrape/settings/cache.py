"""The settings `cache`, `warc` and `playback`: a response cache, a recording to write, one to play back."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.errors.commands import record_command
from shoal.core.model import MINUTE
from shoal.core.text import shorten
from shoal.core.values import read_positive_duration, read_size
from shoal.scrape.settings.compact import CompactSetting

CACHE_SIZE = 1 << 30
ON_DISK = "disk:"
WARC = ".warc.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The lifetime, location and maximum size in bytes of a response cache."""

    lifetime: timedelta = MINUTE
    folder: Path | None = None  # None: in the queue, shared by all workers
    size: int = CACHE_SIZE


def read_cache(key: str, value: Any) -> CacheSettings | None:
    """Read a cache: True, "60s", "10m disk:pages 2GB", or a mapping of lifetime, place and size."""
    return _CACHE.read(key, value)


def read_warc(key: str, value: Any) -> Path:
    """Read the path of a WARC file to write."""
    path = _path(key, value)
    if not path.name.endswith(WARC) or path.name == WARC:
        raise InvalidSetting(key, f"must be a file that ends in {WARC}, got {shorten(repr(str(value)))}")
    if not path.parent.is_dir():
        raise InvalidSetting(key, f"is in a folder that does not exist. Run: mkdir -p {path.parent}")
    return path


def read_playback(key: str, value: Any) -> Path:
    """Read the path of an existing recording."""
    path = _path(key, value)
    if not path.exists():
        raise InvalidSetting(key, f"found no recording at {path}. Make one: {record_command(path)}")
    return path


def _path(key: str, value: Any) -> Path:
    if isinstance(value, Path) or (isinstance(value, str) and value.strip() and value.isprintable()):
        return Path(value)
    raise InvalidSetting(key, f"must be a file name, got {shorten(repr(value))}")


def _read_folder(key: str, place: Any) -> Path | None:
    if place == "queue":
        return None
    if isinstance(place, str) and place.startswith(ON_DISK) and place != ON_DISK:
        return Path(place.removeprefix(ON_DISK))
    raise InvalidSetting(
        key, f"must be in 'queue' or a folder such as 'disk:pages', got {shorten(repr(place))}"
    )


def _name_of(word: str) -> str | None:
    if "=" in word and not word.startswith(ON_DISK):
        return None
    if word.startswith(ON_DISK) or word == "queue":
        return "place"
    return "size" if word[-1:].lower() == "b" and word[:1].isdigit() else "lifetime"


def _build(key: str, fields: dict[str, Any]) -> CacheSettings:
    return CacheSettings(folder=fields.pop("place", None), **fields)


_CACHE = CompactSetting(
    kind=CacheSettings,
    fields={"lifetime": read_positive_duration, "place": _read_folder, "size": read_size},
    example="'60s' or '10m disk:pages 2GB'",
    main="lifetime",
    name_of=_name_of,
    build=_build,
)

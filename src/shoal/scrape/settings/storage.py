"""The settings of what is stored beside items: cache, warc, playback, revisit, files and dedup."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.commands import record_command
from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE
from shoal.core.revisits import RevisitBounds
from shoal.core.text import shorten
from shoal.core.urls import OBJECT_SCHEMES, is_object_url
from shoal.core.values import read_positive_duration, read_range, read_size, read_words
from shoal.scrape.settings.declaration import OFF, CompactSetting

CACHE_SIZE = 1 << 30
ON_DISK = "disk:"
WARC = ".warc.gz"
MAX_INTERVAL = timedelta(days=300)  # between two fetches of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The lifetime, location and maximum size in bytes of a response cache."""

    lifetime: timedelta = MINUTE
    folder: Path | None = None  # None: in the queue, shared by all workers
    size: int = CACHE_SIZE


def read_warc(key: str, value: Any) -> Path:
    """Read the path of a WARC file to write."""
    path = _read_path(key, value)
    if not path.name.endswith(WARC) or path.name == WARC:
        raise InvalidSetting(key, f"must be a file that ends in {WARC}, got {shorten(repr(str(value)))}")
    if not path.parent.is_dir():
        raise InvalidSetting(key, f"is in a folder that does not exist. Run: mkdir -p {path.parent}")
    return path


def read_playback(key: str, value: Any) -> Path:
    """Read the path of an existing recording."""
    path = _read_path(key, value)
    if not path.exists():
        raise InvalidSetting(key, f"found no recording at {path}. Make one: {record_command(path)}")
    return path


def read_revisit(key: str, value: Any) -> RevisitBounds | None:
    """Read the shortest and the longest interval between two fetches of a page."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() in OFF):
        return None
    bounds = RevisitBounds(
        *read_range(key, value.replace("..", "-") if isinstance(value, str) else value, example="1d..30d")
    )
    if not timedelta(0) < bounds.shortest <= bounds.longest <= MAX_INTERVAL:
        reason = f"must be more than zero and at most {MAX_INTERVAL.days}d: a page is remembered for a year"
        raise InvalidSetting(key, reason)
    return bounds


def _read_path(key: str, value: Any) -> Path:
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


def _cache_field(word: str) -> str | None:
    if "=" in word and not word.startswith(ON_DISK):
        return None
    if word.startswith(ON_DISK) or word == "queue":
        return "place"
    return "size" if word[-1:].lower() == "b" and word[:1].isdigit() else "lifetime"


def _build_cache(key: str, fields: dict[str, Any]) -> CacheSettings:
    return CacheSettings(folder=fields.pop("place", None), **fields)


read_cache = CompactSetting(
    kind=CacheSettings,
    fields={"lifetime": read_positive_duration, "place": _read_folder, "size": read_size},
    example="'60s' or '10m disk:pages 2GB'",
    main="lifetime",
    name_of=_cache_field,
    build=_build_cache,
).read


DEFAULT_FOLDER = "files"  # in the working folder of the worker


def read_files(key: str, value: Any) -> str:
    """Read a folder, or an address in object storage such as s3://bucket/images."""
    text = str(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidSetting(key, f"must be a folder or s3://BUCKET/PATH, got {shorten(repr(value))}")
    if "://" in text and not is_object_url(text):
        known = ", ".join(f"{scheme}://" for scheme in OBJECT_SCHEMES)
        raise InvalidSetting(key, f"must be a folder or an address with {known}; got {shorten(repr(text))}")
    if not is_object_url(text) and Path(text).exists() and not Path(text).is_dir():
        raise InvalidSetting(key, f"is a file, and must be a folder: {shorten(text)}. Choose another name")
    return text


_DEDUP_EXAMPLE = "'30d', '30d steps=article', or off"


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupSettings:
    """How long other runs skip a task after it was queued, and for which steps; all steps if empty."""

    lifetime: timedelta
    steps: tuple[str, ...] = ()


def _read_lifetime(key: str, value: Any) -> timedelta:
    try:
        return read_positive_duration(key, value)
    except InvalidSetting as error:
        got = shorten(repr(value), 60)
        raise InvalidSetting(key, f"must be a duration, got {got}; write {_DEDUP_EXAMPLE}") from error


def _build_dedup(key: str, fields: dict[str, Any]) -> DedupSettings:
    if "lifetime" not in fields:
        raise InvalidSetting(key, f"needs a duration; write {_DEDUP_EXAMPLE}")
    return DedupSettings(**fields)


read_dedup = CompactSetting(
    kind=DedupSettings,
    fields={"lifetime": _read_lifetime, "steps": read_words},
    example=_DEDUP_EXAMPLE,
    main="lifetime",
    name_of=lambda word: None if "=" in word else "lifetime",
    lists=("steps",),
    build=_build_dedup,
).read

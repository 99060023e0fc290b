"""Reads the sources of a run, by the names that options and project files use, into `Seeds`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.urls import host_of
from shoal.core.values import hint, read_priority, read_since, read_text, read_words
from shoal.discover.files.table import Columns
from shoal.discover.labels import Labels
from shoal.discover.source import shown
from shoal.fleet.project.file import ProjectScraper
from shoal.fleet.sources.kinds import SOURCES
from shoal.fleet.sources.seeds import Seeds, Stream


def allowed_private_hosts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of typed URLs that can only be private: typing one allows it."""
    for url in urls:
        try:
            host = host_of(url)
        except InvalidUrl:
            continue  # rejected and reported when it is enqueued
        has_port = host.rpartition(":")[2].isdecimal()
        name = host.rpartition(":")[0] if has_port else host
        if "." not in name or name.endswith(".localhost") or _is_address(name):
            # With its port always: a name alone would allow all its ports.
            yield host if has_port else f"{host}:{443 if url.lower().startswith('https:') else 80}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


Spell = Callable[[str], str]

ALL, NONE = "*", "-"
OPTIONS = {"step": "seed_step"}  # other spellings of the commands
# Fields of `Seeds` that have another name.
FIELDS = {
    "url": "urls",
    "urls_file": "file",
    "sitemap": "sitemaps",
    "sitemap_hosts": "hosts",
    "feed": "feeds",
    "source": "others",
    "combine": "template",
    "axis": "axes",
    "items": "from_items",
    "seed_step": "step",
}
# Names that have no effect without one of these.
NEEDS = {
    **dict.fromkeys(("format", "encoding", "delimiter", "column", "key"), ("urls_file",)),
    "sitemap_hosts": ("sitemap",),
    "feed_hosts": ("feed",),
    "since": ("sitemap", "feed", "source"),
    "items": ("from_run",),
}


def read_seeds(given: Mapping[str, Any], spell: Spell = str) -> Seeds:
    """Read the sources of a run; `spell` turns a name into the user's spelling for an InvalidSetting."""
    named = {name: value for name, value in given.items() if value is not None and value != []}
    for name in named:
        if name not in _READERS:
            raise InvalidSetting(spell(name), f"is not known. {hint(OPTIONS.get(name, name), _READERS)}")
    for name, others in NEEDS.items():
        if name in named and not any(other in named for other in others):
            choice = " or ".join(map(spell, others))
            raise InvalidSetting(spell(name), f"has no effect alone; add {choice}")
    found = {name: _READERS[name](spell(name), value) for name, value in named.items()}
    payload, templates = _payload(spell, found)
    columns = Columns(
        url=found.pop("column", None),
        key=found.pop("key", None),
        delimiter=found.pop("delimiter", None),
        payload=payload,
    )
    labels = Labels(found.pop("partition", None), found.pop("priority", None))
    fields = {FIELDS.get(name, name): value for name, value in found.items() if name != "payload"}
    return Seeds(columns=columns, labels=labels, templates=templates, named=named, **fields)


def read_sources(urls: Stream, tasks: Stream, others: Mapping[str, Any]) -> Seeds:
    """Read the URLs and tasks that a program passes, and its other sources by name."""
    named = {"urls": [urls] if isinstance(urls, str) else urls, "tasks": tasks}
    # An empty list is no source; whether a stream is empty shows only when it is read.
    given = tuple((name, stream) for name, stream in named.items() if stream != () and stream != [])
    return replace(read_seeds(others), given=given)


def seeds_of(entry: ProjectScraper) -> Seeds:
    """Read the seeds of a project's scraper; an error names the file and the key."""
    return read_seeds(entry.seeds, lambda name: f"{entry.where}: scrapers.{entry.name}.seeds.{name}")


def _payload(
    spell: Spell, found: Mapping[str, Any]
) -> tuple[bool | tuple[str, ...] | None, dict[str, str] | None]:
    """Return the columns that become payload, and the payload templates of combinations."""
    words: tuple[str, ...] = found.get("payload", ())
    templates = dict(word.split("=", 1) for word in words if "=" in word)
    names = tuple(name for word in words if "=" not in word for name in _split(word))
    if templates and not (found.get("combine") or found.get("axis")):
        raise InvalidSetting(spell("payload"), f"NAME=TEMPLATE is for combinations; add {spell('combine')}")
    columns = {(): None, (ALL,): True, (NONE,): False}.get(names, names)
    return columns, templates or None


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _texts(key: str, value: Any) -> tuple[str, ...]:
    """Read one text or several without validation: an invalid URL is refused later, with its source."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise InvalidSetting(key, f"must be text or a list of texts, got {value!r}")
    return tuple(texts)


def _list(key: str, value: Any) -> tuple[str, ...]:
    return tuple(name for word in read_words(key, value) for name in _split(word))


def _sources(key: str, value: Any) -> dict[str, list[str]]:
    """Read sources such as KIND:ADDRESS and SCHEME://…, by kind; raises InvalidSetting, or PluginFailed."""
    found: dict[str, list[str]] = {}
    for text in _texts(key, value):
        kind, colon, address = text.partition(":")
        if not colon:
            raise InvalidSetting(key, f"must be KIND:ADDRESS or KIND://…, got {shown(text)!r}")
        if SOURCES.find(kind.lower()) is None:
            raise InvalidSetting(key, f"has no kind {shown(kind)!r}. {hint(kind.lower(), SOURCES.names())}")
        found.setdefault(kind.lower(), []).append(text if address.startswith("//") else address)
    return found


def _priority(key: str, value: Any) -> str | int:
    """Read a number, or the name of a column."""
    text = str(value).strip()
    return read_priority(key, text) if text.isdecimal() else read_text(key, value)


def _delimiter(key: str, value: Any) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(value, value)
    if not isinstance(character, str) or len(character) != 1:
        raise InvalidSetting(key, f"must be one character, or tab, got {value!r}")
    return character


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "url": _texts,
    "urls_file": read_text,
    "format": read_text,
    "encoding": read_text,
    "delimiter": _delimiter,
    "column": read_text,
    "key": read_text,
    "payload": read_words,
    "partition": read_text,
    "priority": _priority,
    "seed_step": read_text,
    "sitemap": _texts,
    "sitemap_hosts": _list,
    "feed": _texts,
    "feed_hosts": _list,
    "source": _sources,
    "since": lambda key, value: read_since(key, value, datetime.now(UTC)),
    "combine": read_text,
    "axis": read_words,
    "from_run": read_text,
    "items": read_text,
}
SOURCE_NAMES = tuple(_READERS)

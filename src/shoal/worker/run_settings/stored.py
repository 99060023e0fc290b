"""The settings of a run: what was given when it was made, and what was changed since; a note in the queue.

Secrets are not stored: only the name of a variable or the path of a file that holds them.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.redact import is_secret_header, shown_address
from shoal.core.urls import is_object_url
from shoal.queue.contract import SharedNotes

TOPIC = "run settings"
MAX_TRIES = 20
# What every worker of a run follows while it works. Other settings are read when a worker starts.
LIVE = (
    *("rate", "delay", "per_host", "retries", "retry", "max_pages", "max_depth", "scope", "skip"),
    *("statuses", "allow_private"),
)
_SAME = {"rate": "delay", "delay": "rate"}  # two names of one setting
PATH_SETTINGS = ("warc", "playback", "files")  # each is one path
_BARE_PROXY = re.compile(r"([a-z0-9]+://)?([^\s@:/]+|\[[0-9a-f:.]+\])(:[0-9]+)?/?", re.IGNORECASE)
_CREDENTIALS = re.compile(r"\s*(bearer|basic|digest|token|negotiate)\s+\S", re.IGNORECASE)
_OFF = ("off", "none", "false", "no")


class StoredSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that were given for a run, and what is needed to change them without its scraper."""

    values: dict[str, Any] = {}
    withheld: list[str] = []  # settings that contain a secret, and have to be given again
    defaults: dict[str, Any] = {}  # some settings as the scraper's file has them
    exits: int = 1  # proxies with a rate limit of their own
    scraper: str = ""  # as it was typed: FILE[:NAME], or a name in the project file


_decode = msgspec.json.Decoder(StoredSettings).decode
_encode = msgspec.json.Encoder().encode


class SettingsNote(msgspec.Struct, frozen=True):
    """The settings as stored, and the stamp of their note; None if the run has none."""

    settings: StoredSettings = StoredSettings()
    stamp: int | None = None


async def read_note(queue: SharedNotes, run_id: str) -> SettingsNote:
    """Return the settings of a run; empty for a run of an older version."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    return SettingsNote(_decode(note.value), note.stamp) if note else SettingsNote()


async def write_settings(queue: SharedNotes, run_id: str, settings: StoredSettings) -> None:
    """Store the settings of a new run."""
    await queue.write_notes(TOPIC, {run_id: _encode(settings)})


async def swap_settings(queue: SharedNotes, run_id: str, settings: StoredSettings, stamp: int | None) -> bool:
    """Store changed settings unless someone else has changed them since; return whether they are stored."""
    return await queue.swap_note(TOPIC, run_id, _encode(settings), stamp=stamp) is not None


async def forget_settings(queue: SharedNotes, run_id: str) -> None:
    """Remove the settings of a purged run."""
    await queue.write_notes(TOPIC, {run_id: None})


def replaced(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some replaced; the other name of a setting is dropped."""
    return {key: value for key, value in before.items() if _SAME.get(key) not in changes} | dict(changes)


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some replaced; allowed hosts are added up."""
    hosts = dict.fromkeys([*_hosts(before), *_hosts(changes)])
    return replaced(before, changes) | ({"allow_private": list(hosts)} if hosts else {})


def live_part(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that workers follow while they work."""
    return {key: value for key, value in values.items() if key in LIVE}


def storable(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return settings as they may be stored, with absolute paths; and the names of those with a secret."""
    kept: dict[str, Any] = {}
    withheld = []
    for key, value in values.items():
        plain = _plain(key, value)
        if plain is _SECRET:
            withheld.append(key)
        else:
            kept[key] = plain
    return kept, withheld


_SECRET: Any = object()


def _plain(key: str, value: Any) -> Any:
    """Return a value as JSON can hold it; `_SECRET` if it cannot be stored."""
    if key == "headers" and isinstance(value, Mapping) and _has_credentials(value):
        return _SECRET
    if key == "sites" and isinstance(value, Mapping):
        if any(map(_has_site_secret, value.values())):
            return _SECRET
        value = {pattern: _with_absolute_proxies(site) for pattern, site in value.items()}
    if key == "tokens" and not isinstance(value, (str, bool, Path, type(None))):
        source = value.get("from", True) if isinstance(value, Mapping) else value
        if not isinstance(source, (str, bool)):
            return _SECRET
    if key == "proxies" and not all(map(_is_bare_proxy, _proxies_in(value))):
        return _SECRET
    if key in ("proxies", "tokens", "cache", "tor", *PATH_SETTINGS):
        value = with_absolute_paths(key, value)
    try:
        text = _encode(_simple(value)).decode()
    except TypeError:
        return _SECRET  # a function, which only its program has
    return _SECRET if shown_address(text) != text else msgspec.json.decode(text)


def _has_site_secret(site: Any) -> bool:
    if not isinstance(site, Mapping):
        return False
    proxies = _proxies_in(site.get("proxies"))
    return _has_credentials(site.get("headers") or {}) or not all(map(_is_bare_proxy, proxies))


def _with_absolute_proxies(site: Any) -> Any:
    if not isinstance(site, Mapping) or not site.get("proxies"):
        return site
    return {**site, "proxies": with_absolute_paths("proxies", site["proxies"])}


def _has_credentials(headers: Mapping[str, Any]) -> bool:
    values = map(str, headers.values())
    return any(map(is_secret_header, headers)) or any(map(_CREDENTIALS.match, values))


def _proxies_in(value: Any) -> list[Any]:
    """Return the addresses in a setting `proxies`; a file is none."""
    source = value.get("from") if isinstance(value, Mapping) else value
    if isinstance(source, str):
        source = [] if Path(source).is_file() else [source.split()[0]] if source.strip() else []
        return [one for one in source if "://" in one]
    return list(source) if isinstance(source, (list, tuple)) else []


def _is_bare_proxy(address: Any) -> bool:
    """Return whether a proxy's address has no user and no password, in any of the forms that proxies have."""
    return isinstance(address, str) and bool(_BARE_PROXY.fullmatch(address.strip()))


def with_absolute_paths(key: str, value: Any) -> Any:
    """Return the value of a setting with paths that mean the same in every folder."""
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, Mapping):
        places = ("from", "place", "torrc")
        return {name: with_absolute_paths(key, one) if name in places else one for name, one in value.items()}
    if not isinstance(value, str) or value.lower() in _OFF:
        return value
    if key in PATH_SETTINGS:
        return value if is_object_url(value) else str(Path(value).absolute())
    return (
        " ".join(map(_with_absolute_path, value.split())) if not Path(value).is_file() else _absolute(value)
    )


def _with_absolute_path(word: str) -> str:
    for prefix in ("disk:", "file:", "torrc="):
        if word.startswith(prefix):
            return prefix + _absolute(word.removeprefix(prefix))
    return _absolute(word) if Path(word).is_file() else word


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _simple(value: Any) -> Any:
    """Return a value of Python in the form that `--set` takes."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _simple(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_simple(one) for one in value]
    return value


def _hosts(values: Mapping[str, Any]) -> Iterable[str]:
    given = values.get("allow_private") or ()
    return [given] if isinstance(given, str) else given

"""The settings of a run: what was given when it was made, and what was changed since; a note in the queue.

Secrets are not stored: only the name of a variable or the path of a file that holds them.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.redact import shown_address
from shoal.queue.contract import SharedNotes
from shoal.scrape.settings.scraper import SETTINGS, find_setting, same_names

TOPIC = "run settings"
MAX_TRIES = 20
# What every worker of a run follows while it works. Other settings are read when a worker starts.
LIVE = tuple(name for name, declared in SETTINGS.items() if declared.live)


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
    names = {other for key in changes for other in same_names(key)}
    return {key: value for key, value in before.items() if key not in names} | dict(changes)


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
    declared = find_setting(key)
    if declared.is_secret(value):
        return _SECRET
    try:
        text = _encode(_simple(declared.absolute(value))).decode()
    except TypeError:
        return _SECRET  # a function, which only its program has
    return _SECRET if shown_address(text) != text else msgspec.json.decode(text)


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

"""The settings of a run: stored in the queue, and followed by its workers while they work.

What was given when the run was made, and what was changed since. Secrets are not stored: only the name of a
variable or the path of a file that holds them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import Run
from shoal.core.redact import shown_address
from shoal.core.tasks import wait_for_event
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.settings.scraper import SETTINGS, find_setting, same_names
from shoal.worker.scheduler import Pause

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
    seeds: str = ""  # the mark of its sources: runs with others are not compared


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
    """Return settings with some replaced; allowed hosts and settings of Scrapy are added up."""
    hosts = dict.fromkeys([*_hosts(before), *_hosts(changes)])
    scrapy = {**(before.get("scrapy") or {}), **(changes.get("scrapy") or {})}
    added = ({"allow_private": list(hosts)} if hosts else {}) | ({"scrapy": scrapy} if scrapy else {})
    return replaced(before, changes) | added


def live_part(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that workers follow while they work."""
    return {key: value for key, value in values.items() if key in LIVE}


def pause_of(settings: StoredSettings) -> Pause | None:
    """Return how long the workers of a run pause between tasks."""
    found: Pause | None = find_setting("pause").read(
        "pause", settings.values.get("pause", settings.defaults.get("pause"))
    )
    return found


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


FOLLOW_INTERVAL = timedelta(seconds=0.9)
# Of a worker whose pool reads the settings for all its workers, and says when they have changed.
SUPERVISED_INTERVAL = timedelta(minutes=5)

Apply = Callable[[Run, Mapping[str, Any]], Awaitable[None]]


class SettingsFollower:
    """Reads the settings of a run periodically, and applies those that have changed."""

    def __init__(self, queue: Queue, run_id: str, known: SettingsNote, apply: Apply) -> None:
        self._queue, self._run_id, self._apply = queue, run_id, apply
        self._asked = asyncio.Event()
        self._stamp, self._live = known.stamp, live_part(known.settings.values)

    async def run(self, interval: timedelta = FOLLOW_INTERVAL) -> None:
        """Read and apply until cancelled; between two reads, `check_soon` ends the wait."""
        wait = interval
        while True:
            await wait_for_event(self._asked, wait.total_seconds() * random.uniform(0.9, 1.1))
            self._asked.clear()
            try:
                await self.check()
                wait = interval
            except QueueError:
                wait = FOLLOW_INTERVAL  # a change is announced once

    def check_soon(self) -> None:
        """Have `run` read the settings now: they have changed."""
        self._asked.set()

    async def check(self) -> None:
        """Read once, and apply what has changed."""
        note = await read_note(self._queue, self._run_id)
        if note.stamp in (self._stamp, None):
            return
        live = live_part(note.settings.values)
        changed = {key: value for key, value in live.items() if self._live.get(key, _MISSING) != value}
        if changed:
            # The run's own limits are changed before the note is written.
            await self._apply(await self._queue.run(self._run_id), changed)
        self._stamp, self._live = note.stamp, live


_MISSING = object()


def options_for(hosts: Iterable[str]) -> list[str]:
    """Return the options that allow these hosts."""
    return [word for host in hosts for word in ("--allow-private", host)]

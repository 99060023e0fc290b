"""What callbacks assign to their spider, such as `self.token = …`: other workers and later starts need it."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from scrapy import Spider

from shoal.queue.contract import SharedNotes
from shoal.scrapy.values import UnstorableRequest, ValueCodec

TOPIC = "scrapy attributes"
VERSION = "attributes"  # among the versions that a task needs; the others are of cookie jars
STATE = "state"  # of the spider: shared in any case
MAX_SIZE = 64 * 1024  # characters of one attribute

log = logging.getLogger(__name__)


class SharedAttributes:
    """Keeps the attributes that callbacks have assigned alike in all workers of a run.

    They are written before a task is settled, and each follow-up task names the version that it needs. An
    object that the spider had before its first callback is not shared, even if callbacks change it in place:
    a set of seen IDs would know those of a task that is repeated. Of two workers that set an attribute at the
    same time, the last one to store it wins.
    """

    def __init__(self, queue: SharedNotes, run_id: str, spider: Spider, values: ValueCodec) -> None:
        self._queue, self._run_id, self._spider, self._values = queue, run_id, spider, values
        self._before: dict[str, Any] | None = None  # attributes before the first callback
        self._known: dict[str, str] = {}  # those assigned since then as JSON, as last read or written
        self._refused: set[str] = set()
        self._lock = asyncio.Lock()
        self.version = 0

    async def begin(self) -> None:
        """Read what other workers have assigned; called before each callback, does this once."""
        async with self._lock:
            if self._before is None:
                self._before = dict(vars(self._spider))
                await self._read()

    async def read(self, versions: Mapping[str, int]) -> None:
        """Read the attributes if this worker has an older version."""
        async with self._lock:
            if self.version < versions.get(VERSION, 0):
                await self._read()

    async def write(self) -> None:
        """Store what callbacks have assigned since the last call."""
        async with self._lock:
            while self._assigned() != self._known:
                stamp = await self._read()
                own = self._assigned()
                text = json.dumps([self.version + 1, own])
                if await self._queue.swap_note(TOPIC, self._run_id, text.encode(), stamp=stamp):
                    self._known, self.version = own, self.version + 1

    async def _read(self) -> int | None:
        """Take over what other workers have assigned; return the stamp of the note."""
        note = (await self._queue.notes(TOPIC, [self._run_id])).get(self._run_id)
        if note is None:
            return None
        version, theirs = json.loads(note.value)
        if version != self.version:
            own = self._assigned()
            for name, text in theirs.items():
                # What this worker has assigned meanwhile is newer than what another one has stored.
                if text != self._known.get(name) and own.get(name) == self._known.get(name):
                    setattr(self._spider, name, self._decode(text))
            self._known, self.version = theirs, version
        return note.stamp

    def _assigned(self) -> dict[str, str]:
        """Return the attributes that were assigned since the beginning, as JSON."""
        before = vars(self._spider) if self._before is None else self._before
        found: dict[str, str] = {}
        for name, value in vars(self._spider).items():
            is_old = name in before and value is before[name] and not (name == STATE and value)
            if not is_old and name not in self._refused and (text := self._encode(name, value)):
                found[name] = text
        return found

    def _encode(self, name: str, value: Any) -> str:
        """Return an attribute as JSON; nothing, after a warning, if it cannot be shared."""
        try:
            text = json.dumps(self._values.encode(name, value))
        except UnstorableRequest as error:
            return self._refuse(name, f"{error.what}. {error.advice}")
        return text if len(text) <= MAX_SIZE else self._refuse(name, f"longer than {MAX_SIZE:,} characters.")

    def _refuse(self, name: str, why: str) -> str:
        self._refused.add(name)
        log.warning(
            "%s.%s is not shared: each worker has its own, and a restart has none. It is %s Or pass what "
            "a callback needs as cb_kwargs.",
            type(self._spider).__name__,
            name,
            why,
        )
        return ""

    def _decode(self, text: str) -> Any:
        return self._values.decode(json.loads(text))

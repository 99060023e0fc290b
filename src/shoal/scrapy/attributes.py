"""What callbacks assign to their spider, such as `self.token = …`: other workers and later starts need it."""

import asyncio
import json
import logging
from typing import Any

from scrapy import Spider

from shoal.scrapy.sharing import VersionedNotes
from shoal.scrapy.values import UnstorableRequest, ValueCodec

NAME = "attributes"  # among what workers share; the other names are of cookies
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

    def __init__(self, notes: VersionedNotes, spider: Spider, values: ValueCodec) -> None:
        self._notes, self._spider, self._values = notes, spider, values
        self._before: dict[str, Any] | None = None  # attributes before the first callback
        self._known: dict[str, str] = {}  # those assigned since then as JSON, as last read or written
        self._refused: set[str] = set()
        self._lock = asyncio.Lock()

    @property
    def version(self) -> int:
        """The version that this worker has."""
        return self._notes.versions.get(NAME, 0)

    async def read(self, version: int) -> None:
        """Read the attributes if this worker has an older version, or has not read any yet."""
        async with self._lock:
            is_first = self._before is None
            if is_first:
                self._before = dict(vars(self._spider))
            if (is_first or self.version < version) and (theirs := await self._notes.read(NAME)):
                self._take_over(theirs)

    async def write(self) -> None:
        """Store what callbacks have assigned since the last call."""
        async with self._lock:
            if self._assigned() != self._known:
                await self._notes.write(NAME, self._take_over)

    def _take_over(self, theirs: dict[str, str] | None) -> dict[str, str]:
        """Take over what others have assigned; return what all have."""
        own = self._assigned()
        for name, text in (theirs or {}).items():
            # What this worker has assigned meanwhile is newer than what another one has stored.
            if text != self._known.get(name) and own.get(name) == self._known.get(name):
                setattr(self._spider, name, self._decode(text))
        self._known = self._assigned()
        return self._known

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
        says = "is not shared: each worker has its own, and a restart has none. It is"
        advice = "Or pass what a callback needs as cb_kwargs."
        log.warning("%s.%s %s %s %s", type(self._spider).__name__, name, says, why, advice)
        return ""

    def _decode(self, text: str) -> Any:
        return self._values.decode(json.loads(text))

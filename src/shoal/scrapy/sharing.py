"""What the workers of a run share: cookie jars, and what callbacks assign to their spider."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.cookiejar import Cookie
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import Response

from shoal.core.model import Task
from shoal.queue.contract import SharedNotes
from shoal.scrapy.compat import cookies_of
from shoal.scrapy.values import UnstorableRequest, ValueCodec

# In the payload of a task, beside what its request has: the versions that it needs, by name.
VERSIONS = "versions"
NAME = "attributes"  # among what workers share; the other names are of cookies
STATE = "state"  # of the spider: shared in any case
MAX_SIZE = 64 * 1024  # characters of one attribute
_FIELDS = [name for name in signature(Cookie).parameters if name not in ("rest", "rfc2109")]

log = logging.getLogger(__name__)


class VersionedNotes:
    """Reads and writes the shared values of a run; `versions` are those that this worker has.

    Follow-up tasks name the version of each that they need.
    """

    def __init__(self, queue: SharedNotes, run_id: str) -> None:
        self._queue, self._topic = queue, f"shared by the spiders of run {run_id}"
        self.versions: dict[str, int] = {}

    async def read(self, name: str) -> Any:
        """Return a value that another worker has stored; None if this worker has it already."""
        _, version, value = await self._stored(name)
        if version == self.versions.get(name, 0):
            return None
        self.versions[name] = version
        return value

    async def write(self, name: str, make: Callable[[Any], Any]) -> None:
        """Store what `make` returns for a value of another worker that was not read, or for None."""
        while True:
            stamp, version, theirs = await self._stored(name)
            value = make(None if version == self.versions.get(name, 0) else theirs)
            text = json.dumps([version + 1, value])
            self.versions[name] = version
            if await self._queue.swap_note(self._topic, name, text.encode(), stamp=stamp):
                self.versions[name] += 1
                return

    async def _stored(self, name: str) -> tuple[int | None, int, Any]:
        """Return the stamp, the version and the value of a note."""
        note = (await self._queue.notes(self._topic, [name])).get(name)
        return (None, 0, None) if note is None else (note.stamp, *json.loads(note.value))


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
                setattr(self._spider, name, self._values.decode(json.loads(text)))
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


class SharedCookies:
    """Keeps the jars of one worker and the notes of the run alike; there is a note for each jar and domain.

    What a task has changed is written before it is settled, and each follow-up task names the versions that
    its own jar and host need: a worker with an older one reads the note first.
    """

    def __init__(self, notes: VersionedNotes, jars: dict[Any, Any], values: ValueCodec) -> None:
        self._notes, self._jars, self._values = notes, jars, values
        self._known: dict[str, list[Any]] = {}  # the notes as they were last read or written
        self._touched: dict[str, None] = {}  # that may have changed since
        self._lock = asyncio.Lock()  # a task also needs the versions that another one is writing

    def touch(self, request: Request, response: Response) -> None:
        """Record that a request or its response may have set cookies."""
        if request.cookies or "Set-Cookie" in response.headers:
            jar = self._values.encode("meta['cookiejar']", request.meta.get("cookiejar"))
            self._touched |= dict.fromkeys(_names(jar, request.url))

    def versions_for(self, task: Task) -> dict[str, int]:
        """Return the versions of what a follow-up task needs."""
        jar, known = task.payload.get("meta", {}).get("cookiejar"), self._notes.versions
        return {name: known[name] for name in _names(jar, task.url or "") if name in known} if known else {}

    async def write(self) -> None:
        """Store what has changed since the last call."""
        async with self._lock:
            while self._touched:
                name = next(iter(self._touched))
                del self._touched[name]
                if self._dump(name) != self._known.get(name, []):
                    await self._notes.write(name, partial(self._merge, name))

    async def read(self, versions: Mapping[str, int]) -> None:
        """Read those of which this worker has an older version."""
        async with self._lock:
            for name, version in versions.items():
                if self._notes.versions.get(name, 0) < version and (theirs := await self._notes.read(name)):
                    self._load(name, theirs)

    def _merge(self, name: str, theirs: list[Any] | None) -> list[Any]:
        # What this worker has set meanwhile is newer than what another one has stored.
        own = self._dump(name)
        self._load(name, theirs or [])
        self._load(name, own)
        return self._known[name]

    def _load(self, name: str, cookies: list[Any]) -> None:
        jar, _ = self._find(name)
        for values in cookies:
            jar.set_cookie(Cookie(**dict(zip(_FIELDS, values, strict=True)), rest={}))
        self._known[name] = self._dump(name)

    def _dump(self, name: str) -> list[Any]:
        jar, domain = self._find(name)
        return [[getattr(one, field) for field in _FIELDS] for one in cookies_of(jar, domain)]

    def _find(self, name: str) -> tuple[Any, str]:
        key, domain = json.loads(name)
        return self._jars[self._values.decode(key)], domain


def _names(jar: Any, url: str) -> Iterator[str]:
    """Yield the names of the notes with the cookies that a URL may set and get."""
    host = (urlsplit(url).hostname or "").lower()
    labels = (host if "." in host else f"{host}.local").split(".")  # as http.cookiejar calls such a host
    for index in range(len(labels)):
        domain = ".".join(labels[index:])
        yield json.dumps([jar, domain])
        yield json.dumps([jar, f".{domain}"])

"""The cookie jars of a run, shared by its workers: a login in one of them is one of all."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from functools import partial
from http.cookiejar import Cookie
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response

from shoal.core.model import Task
from shoal.scrapy.compat import cookies_of
from shoal.scrapy.sharing import VersionedNotes
from shoal.scrapy.values import ValueCodec

_FIELDS = [name for name in signature(Cookie).parameters if name not in ("rest", "rfc2109")]


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

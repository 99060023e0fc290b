"""The cookie jars of a run, shared by its workers: a login in one of them is one of all."""

import json
from collections.abc import Collection, Iterable, Mapping
from http.cookiejar import Cookie
from typing import Any

from shoal.queue.contract import SharedNotes

TOPIC = "scrapy cookies"
# In the payload of a task, beside what its request has: the versions of the jars that it needs, by name.
VERSIONS = "versions"
_FIELDS = (
    "version",
    "name",
    "value",
    "port",
    "port_specified",
    "domain",
    "domain_specified",
    "domain_initial_dot",
    "path",
    "path_specified",
    "secure",
    "expires",
    "discard",
    "comment",
    "comment_url",
)


class SharedCookies:
    """Keeps the jars of one worker and the notes of the run alike.

    A jar is written before a task is settled, and each follow-up task names the version that it needs: a
    worker with an older one reads the note first.
    """

    def __init__(self, queue: SharedNotes, run_id: str, jars: dict[Any, Any]) -> None:
        self._queue, self._run_id, self._jars = queue, run_id, jars
        self._known: dict[str, list[Any]] = {}  # the jars as they were last read or written
        self.versions: dict[str, int] = {}

    async def write(self) -> None:
        """Store the jars that have changed since the last call."""
        for key, jar in list(self._jars.items()):
            name = _name_of(key)
            if _dump(jar) != self._known.get(name, []):
                await self._write(name, jar)

    async def read(self, versions: Mapping[str, int]) -> None:
        """Read the jars of which this worker has an older version."""
        for name, version in versions.items():
            if self.versions.get(name, 0) < version and (found := await self._stored(name)):
                _, newest, cookies = found
                self._load(name, cookies, newest, but=())

    async def _write(self, name: str, jar: Any) -> None:
        while True:
            stamp, version, cookies = await self._stored(name) or (None, 0, [])
            if version != self.versions.get(name, 0):
                # What this worker has set meanwhile is newer than what another one has stored.
                self._load(name, cookies, version, but={_identity(one) for one in jar})
            text = json.dumps([version + 1, _dump(jar)])
            if await self._queue.swap_note(TOPIC, self._note_key(name), text.encode(), stamp=stamp):
                self._known[name], self.versions = _dump(jar), {**self.versions, name: version + 1}
                return

    async def _stored(self, name: str) -> tuple[int, int, list[Any]] | None:
        """Return the stamp, the version and the cookies of a stored jar."""
        key = self._note_key(name)
        note = (await self._queue.notes(TOPIC, [key])).get(key)
        return None if note is None else (note.stamp, *json.loads(note.value))

    def _load(
        self, name: str, cookies: list[Any], version: int, *, but: Collection[tuple[str, str, str]]
    ) -> None:
        key = json.loads(name)
        jar = self._jars[tuple(key) if isinstance(key, list) else key]
        for values in cookies:
            cookie = Cookie(**dict(zip(_FIELDS, values, strict=True)), rest={})
            if _identity(cookie) not in but:
                jar.set_cookie(cookie)
        self._known[name], self.versions = _dump(jar), {**self.versions, name: version}

    def _note_key(self, name: str) -> str:
        return f"{self._run_id} {name}"


def _name_of(key: Any) -> str:
    """Return the name of a jar as text; in `meta` it may be a number, a text or a tuple of these."""
    return json.dumps(key, default=str)


def _identity(cookie: Cookie) -> tuple[str, str, str]:
    return cookie.domain, cookie.path, cookie.name


def _dump(jar: Iterable[Cookie]) -> list[Any]:
    return [[getattr(one, name) for name in _FIELDS] for one in jar]

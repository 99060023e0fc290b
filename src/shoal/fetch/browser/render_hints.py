"""Which kinds of pages need a browser: shared with the whole fleet, and forgotten after a while."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import ShoalError
from shoal.fetch.shared_state import SharedState

TOPIC = "pages that need a browser"
HINT_TTL = timedelta(hours=6)  # then a site may have changed, and is tried by HTTP again
READ_INTERVAL_SECONDS = 5.0
MAX_BYTES = 4 << 20
MAX_KNOWN = 10_000
_NUMBERED = re.compile(r"\d|^.{25,}$")


def shape(url: str) -> str:
    """Return what pages of one kind have in common: their host, and the path without its variable parts."""
    _, _, host, *rest = url.split("/", 3)
    path = "".join(rest).partition("?")[0]
    folder, _, _ = path.rpartition("/")
    parts = ["*" if _NUMBERED.search(part) else part for part in folder.split("/")[:8] if part]
    return "/".join([host, *parts, "*" if path else ""])[:400]


class RenderHints:
    """Remembers kinds of pages, and reads what the fleet knows now and then."""

    def __init__(
        self, queue: SharedState, *, ttl: timedelta = HINT_TTL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue, self._ttl, self._clock = queue, ttl, clock
        self._until: dict[str, float] = {}
        self._read_at = float("-inf")

    async def need_browser(self, kind: str) -> bool:
        """Tell whether pages of a kind are known to need a browser."""
        now = self._clock()
        if self._until.get(kind, now) > now:
            return True
        if now - self._read_at < READ_INTERVAL_SECONDS:
            return False
        self._read_at = now
        with suppress(ShoalError):
            for other, note in (await self._queue.notes(TOPIC)).items():
                self._remember(other, now + (self._ttl - note.age).total_seconds())
        return self._until.get(kind, now) > now

    async def learn(self, kind: str) -> None:
        """Record that pages of a kind need a browser, and share it with the fleet."""
        self._remember(kind, self._clock() + self._ttl.total_seconds())
        with suppress(ShoalError):
            await self._queue.write_notes(TOPIC, {kind: b"1"}, ttl=self._ttl)
            await self._queue.trim_notes(TOPIC, max_bytes=MAX_BYTES)

    def _remember(self, kind: str, until: float) -> None:
        if len(self._until) >= MAX_KNOWN:
            self._until.clear()  # the fleet still has them
        self._until[kind] = until

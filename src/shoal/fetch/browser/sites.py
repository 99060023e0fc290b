"""Which kinds of pages need a browser: told to the whole fleet, and forgotten after a while."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import ShoalError
from shoal.fetch.notes import Notes

TOPIC = "pages that need a browser"
KEEP = timedelta(hours=6)  # then a site may have changed, and is tried without one again
LISTEN_EVERY = 5.0  # seconds
MOST_BYTES = 4 << 20
MOST_KNOWN = 10_000
_NUMBERED = re.compile(r"\d|^.{25,}$")


def shape(url: str) -> str:
    """Return what pages of one kind have in common: their host, and the path without what differs."""
    _, _, host, *rest = url.split("/", 3)
    path = "".join(rest).partition("?")[0]
    folder, _, _ = path.rpartition("/")
    parts = ["*" if _NUMBERED.search(part) else part for part in folder.split("/")[:8] if part]
    return "/".join([host, *parts, "*" if path else ""])[:400]


class Sites:
    """Remembers, and asks the fleet now and then what it remembers."""

    def __init__(
        self, queue: Notes, *, keep: timedelta = KEEP, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue, self._keep, self._clock = queue, keep, clock
        self._until: dict[str, float] = {}
        self._heard = float("-inf")

    async def need_browser(self, kind: str) -> bool:
        """Tell whether pages of a kind are known to need a browser."""
        now = self._clock()
        if self._until.get(kind, now) > now:
            return True
        if now - self._heard < LISTEN_EVERY:
            return False
        self._heard = now
        with suppress(ShoalError):
            for other, note in (await self._queue.notes(TOPIC)).items():
                self._remember(other, now + (self._keep - note.age).total_seconds())
        return self._until.get(kind, now) > now

    async def learn(self, kind: str) -> None:
        """Remember that pages of a kind need a browser, and tell the fleet."""
        self._remember(kind, self._clock() + self._keep.total_seconds())
        with suppress(ShoalError):
            await self._queue.write_notes(TOPIC, {kind: b"1"}, ttl=self._keep)
            await self._queue.trim_notes(TOPIC, max_bytes=MOST_BYTES)

    def _remember(self, kind: str, until: float) -> None:
        if len(self._until) >= MOST_KNOWN:
            self._until.clear()  # the fleet still knows
        self._until[kind] = until

"""Follows the settings of a run while a worker works on it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from shoal.core.errors import QueueError
from shoal.core.model import Run
from shoal.core.tasks import wait_for_event
from shoal.queue.contract import Queue
from shoal.worker.run_settings.stored import SettingsNote, live_part, read_note

FOLLOW_INTERVAL = timedelta(seconds=0.9)
# Of a worker whose pool reads the settings for all its workers, and says when they have changed.
SUPERVISED_INTERVAL = timedelta(seconds=20)

Apply = Callable[[Run, Mapping[str, Any]], Awaitable[None]]


class SettingsFollower:
    """Reads the settings of a run periodically, and applies those that have changed."""

    def __init__(
        self,
        queue: Queue,
        run_id: str,
        known: SettingsNote,
        apply: Apply,
        *,
        is_resting: Callable[[], bool] = lambda: False,
    ) -> None:
        """A worker that rests does not need them: it calls `check` before it works again."""
        self._queue, self._run_id, self._apply, self._is_resting = queue, run_id, apply, is_resting
        self._asked = asyncio.Event()
        self._stamp, self._live = known.stamp, live_part(known.settings.values)

    async def run(self, interval: timedelta = FOLLOW_INTERVAL) -> None:
        """Read and apply until cancelled; between two reads, `check_soon` ends the wait."""
        while True:
            await wait_for_event(self._asked, interval.total_seconds() * random.uniform(0.9, 1.1))
            if self._asked.is_set() or not self._is_resting():
                self._asked.clear()
                with suppress(QueueError):
                    await self.check()

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

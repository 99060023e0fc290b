"""Follows the settings of a run while a worker works on it."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from shoal.core.model import Run
from shoal.core.tasks import repeat
from shoal.queue.contract import Queue
from shoal.worker.run_settings.stored import SettingsNote, live_part, read_note

FOLLOW_INTERVAL = timedelta(seconds=0.9)

Apply = Callable[[Run, Mapping[str, Any]], Awaitable[None]]


class SettingsFollower:
    """Reads the settings of a run periodically, and applies those that have changed."""

    def __init__(self, queue: Queue, run_id: str, known: SettingsNote, apply: Apply) -> None:
        self._queue, self._run_id, self._apply = queue, run_id, apply
        self._stamp, self._live = known.stamp, live_part(known.settings.values)

    async def run(self) -> None:
        """Read and apply until cancelled."""
        await repeat(self.check, FOLLOW_INTERVAL, jitter=0.1)

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

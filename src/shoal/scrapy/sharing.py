"""Values that the workers of a run share: follow-up tasks name the version of each that they need."""

import json
from collections.abc import Callable
from typing import Any

from shoal.queue.contract import SharedNotes

# In the payload of a task, beside what its request has: the versions that it needs, by name.
VERSIONS = "versions"


class VersionedNotes:
    """Reads and writes the shared values of a run; `versions` are those that this worker has."""

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

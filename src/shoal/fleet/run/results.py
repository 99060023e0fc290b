"""The feed export: writes the items of a run to the user's output, so that each item is written exactly once.

1. The store has each item once: a task's completion and its items are one transaction, and a settlement that
   is repeated or out of date stores nothing.
2. While the run works, `export/follow.py` writes each stored item as a line and remembers its id. At the end
   it reads all items again, for those that were committed below a higher id.
3. A run that is resumed writes all its items again. A note in the queue says which run has written a file
   last, and where its items begin (`OutputFile`): it replaces its own, never those of other runs or programs.
   A line that a crash has cut off is removed first (`repair_last_line` in `export/target.py`).
4. A format that cannot grow line by line is written when the run has ended, under a temporary name that
   becomes the file's own in one step (`AtomicFile` in `export/target.py`). A table gets each row by its key.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec

from shoal.core.errors import DutyFailed, ExportFailed, InvalidSetting, ShoalError, UnknownRun
from shoal.core.model import StoredItem
from shoal.core.urls import is_object_url
from shoal.export.contract import Writer
from shoal.export.follow import export, follow
from shoal.export.objects import object_exists
from shoal.export.open import Existing, can_follow, exporter_of, open_writer
from shoal.export.tables.address import is_table
from shoal.export.target import STDOUT, has_content, repair_last_line
from shoal.fleet.command_hints import command_on, joined
from shoal.queue.contract import Queue
from shoal.queue.outages import FULL, describe_disk

TOPIC = "output files"
NOTE_TTL = timedelta(days=365)


class _LastWriter(msgspec.Struct):
    run_id: str
    start: int
    end: int | None = None  # of a file that is written at once, when the run has ended


class OutputFile(msgspec.Struct, frozen=True):
    """A file of this machine, or an object in object storage, that runs of a queue write to.

    An object is the same from every machine, and it is replaced whole.
    """

    queue: Queue
    name: str  # its path or URL

    @property
    def path(self) -> Path:
        """The path of a file."""
        return Path(self.name)

    @property
    def is_object(self) -> bool:
        """Whether it is in object storage."""
        return is_object_url(self.name)

    @property
    def _key(self) -> str:
        place = self.name if self.is_object else f"{socket.gethostname()} {os.path.realpath(self.name)}"
        return sha256(place.encode()).hexdigest()

    def _has_content(self) -> bool:
        return object_exists(self.name) if self.is_object else has_content(self.name)

    async def whose(self, run_id: str) -> str | None:
        """Return whose content the file has; None if it has none, or only that of the run."""
        last = await self._last()
        if (last and last.run_id == run_id) or not await asyncio.to_thread(self._has_content):
            return None
        return f"has the items of run {last.run_id} at its end" if last else "was not written by this run"

    async def check_owner(self, run_id: str) -> None:
        """Raise InvalidSetting if the file has content that the run has not written: it must not be lost."""
        if whose := await self.whose(run_id):
            raise InvalidSetting(self.name, f"{whose}. Choose another file, or add --overwrite")

    async def check_last_writer(self, run_id: str) -> None:
        """Raise ExportFailed if another run of this queue has begun to write to the file since."""
        last = await self._last()
        if last and last.run_id != run_id:
            raise ExportFailed(self.name, f"run {last.run_id} writes to it too", "Export to another file")

    async def begin(self, run_id: str, items: Callable[[], AsyncIterator[StoredItem]] | None = None) -> int:
        """Cut what the run has appended before, and return where it begins: at the end for a new one.

        Raises InvalidSetting if others have appended since, of which this queue knows nothing. Lines are
        compared with the `items`; rows, which cannot be, must still end the file.
        """
        if items:
            self._repair()
        last = await self._last()
        size = self.path.stat().st_size if self.path.exists() else 0
        start = min(last.start, size) if last and last.run_id == run_id else size
        if last and start < size:
            if items:
                own = {hash(msgspec.json.encode(item.data)) async for item in items()}
                is_own = await asyncio.to_thread(self._has_only, own, start)
            else:
                is_own = last.end == size
            if not is_own:
                raise InvalidSetting(
                    self.name,
                    f"has content that run {run_id} has not written after what it has. "
                    "Choose another file, or add --overwrite",
                )
            os.truncate(self.path, start)
        await self._write(run_id, start)
        return start

    async def end(self, run_id: str, start: int) -> None:
        """Record that the run has written rows to the end of the file."""
        await self._write(run_id, start, self.path.stat().st_size)

    def _repair(self) -> None:
        if not self.path.exists():
            return
        # As a writer would, which moves the end of the file.
        file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            repair_last_line(file)
        finally:
            os.close(file)

    def _has_only(self, own: set[int], start: int) -> bool:
        """Return whether all lines from an offset on are among the items with these hashes."""
        with self.path.open("rb") as file:
            file.seek(start)
            return all(hash(line.rstrip(b"\n")) in own for line in file)

    async def replace(self, run_id: str) -> None:
        """Record that the run writes the whole file."""
        await self._write(run_id, 0)

    async def is_appended_by(self, run_id: str) -> bool:
        """Return whether the items of the run follow those of others."""
        last = await self._last()
        return last is not None and last.run_id == run_id and last.start > 0

    async def _write(self, run_id: str, start: int, end: int | None = None) -> None:
        value = msgspec.json.encode(_LastWriter(run_id, start, end))
        await self.queue.write_notes(TOPIC, {self._key: value}, ttl=NOTE_TTL)

    async def _last(self) -> _LastWriter | None:
        if not (self.is_object or self.path.exists()):
            return None
        found = (await self.queue.notes(TOPIC, [self._key])).get(self._key)
        return msgspec.json.decode(found.value, type=_LastWriter) if found else None


log = logging.getLogger(__name__)
OutputMode = Existing | Literal["continue"]


class ResultWriter:
    """Writes a run's items while it is open: line by line as they are stored, where the format allows it.

    Without a path nothing is written. `existing` says what happens to a file that is there; `continue` is for
    a run that is resumed: its items replace those that it has written before.
    """

    def __init__(self, queue: Queue, run_id: str, path: str | None, existing: OutputMode = "replace") -> None:
        self._queue, self._run_id, self._path = queue, run_id, path
        self._follower: asyncio.Task[object] | None = None
        self._total: int | None = None
        self._over = asyncio.Event()
        self._on_lost: Callable[[], object] = lambda: None

        is_file = path and path != STDOUT and not is_table(path)
        self._file = OutputFile(queue, path) if path and is_file else None
        self._existing: OutputMode = existing
        # An output that cannot be written is refused before anything is fetched.
        if path:
            check_output(path, existing)

    async def replaced(self) -> str | None:
        """Return whose content the run is going to replace; None if nobody else's."""
        return await self._file.whose(self._run_id) if self._file else None

    async def __aenter__(self) -> Self:
        if self._file and self._existing == "continue":
            await self._file.check_owner(self._run_id)
            is_appended = await self._file.is_appended_by(self._run_id)
            self._existing = "append" if is_appended else "replace"
        if self._file and self._existing != "append":
            await self._file.replace(self._run_id)
        if self._path and can_follow(self._path):
            writer = await self._open_live(self._path)
            self._follower = asyncio.create_task(
                follow(self._items_after, writer, ended=self._total_if_known, stop=self._over)
            )
            self._follower.add_done_callback(self._handle_failure)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follower and not self._follower.done():
            self._follower.cancel()
            await asyncio.wait([self._follower])

    async def finish(self, count: int) -> None:
        """Write the rest of a run that has ended with `count` items."""
        self._total = count
        self._over.set()
        is_written = self._follower is not None and await self._is_followed(self._follower)
        if self._file and self._existing != "append":
            await self._file.check_last_writer(self._run_id)
        # What broke the first attempt, a full disk or an unreachable store, may be over.
        if self._path and not is_written:
            await self._write_all(self._path)

    async def _is_followed(self, follower: "asyncio.Task[object]") -> bool:
        """Return whether all items were written as they came; raises if they cannot be written again."""
        try:
            await follower
        except Exception:
            if self._path == STDOUT:
                raise
            return False
        return True

    async def _write_all(self, path: str) -> None:
        if not (self._file and self._existing == "append"):
            await export(lambda: self._items_after(0), open_writer(path))
        elif can_follow(path):
            await export(lambda: self._items_after(0), await self._open_live(path))
        else:
            start = await self._file.begin(self._run_id)
            await export(lambda: self._items_after(0), open_writer(path, existing="append"))
            await self._file.end(self._run_id, start)

    async def _open_live(self, path: str) -> Writer:
        """Open a file or stdout to be written line by line, from where the run's items begin."""
        if self._file and self._existing == "append":
            await self._file.begin(self._run_id, lambda: self._items_after(0))
            return open_writer(path, live=True)
        return open_writer(path, live=True, overwrite=True)

    def when_lost(self, stop: Callable[[], object]) -> None:
        """Call `stop` when items can no longer be written, not even at the end of the run."""
        self._on_lost = stop

    def _handle_failure(self, task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._over.is_set():  # then `finish` raises it, or retries
            return
        failed = (
            error if isinstance(error, ShoalError) else DutyFailed(f"Writing items to {self._path}", error)
        )
        if self._path == STDOUT:
            log.warning("%s Stopping: nothing receives the items.", _sentence(failed))
            self._on_lost()
        elif isinstance(failed, UnknownRun):
            pass  # the run is gone, which its end says
        elif isinstance(failed, ExportFailed):
            log.warning(
                "%s could not be written: %s. The items stay in the queue, and are written at the end of the "
                "run%s.",
                failed.place,
                self._reason(failed),
                ": make room until then" if isinstance(failed.__cause__, OSError) else "",
            )
        else:
            log.warning("%s The items will be written at the end of the run.", _sentence(failed))

    def with_command(self, error: ExportFailed, queue_url: str) -> ExportFailed:
        """Return the error of a file that could not be written, with the command that writes it later."""
        if self._file is None:
            return error
        can_repeat = isinstance(error.__cause__, OSError)
        place = [str(self._path), "--overwrite"] if can_repeat else ["FILE"]
        command = command_on(queue_url, joined(["export", self._run_id, "--to", *place]))
        first = "Make room, then run" if can_repeat else "Run"
        advice = f"The items are safe in the queue. {first}: {command}"
        return ExportFailed(error.place, self._reason(error), advice)

    def _reason(self, error: ExportFailed) -> str:
        is_full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
        if is_full and self._path and self._file and not self._file.is_object:
            return f"{error.reason} on {describe_disk(Path(self._path))}"
        return error.reason

    def _items_after(self, after: int) -> AsyncIterator[StoredItem]:
        return self._queue.items(self._run_id, after=after)

    async def _total_if_known(self) -> int | None:
        return self._total


class Output(NamedTuple):
    """The output of a run as it was typed."""

    path: str | None
    overwrite: bool = False
    append: bool = False

    def mode(self, *, is_new: bool) -> OutputMode:
        """Return what becomes of an existing file; a run that is resumed goes on with its own."""
        if self.overwrite and self.append:
            raise InvalidSetting("--append", "adds to the file that --overwrite replaces. Use one of them")
        if self.append:
            return "append"
        return "replace" if self.overwrite else "refuse" if is_new else "continue"


def check_output(path: str, existing: OutputMode) -> None:
    """Raise InvalidSetting for an output that cannot be written in this way."""
    is_file = path != STDOUT and not is_table(path)
    # An object's own error says more.
    can_append = is_file and (is_object_url(path) or exporter_of(path).can_append)
    if existing == "append" and not can_append:
        raise InvalidSetting(
            "--append",
            f"adds to .jsonl, .jsonl.gz and .csv files, and {path} is none. Choose such a file, or add "
            "--overwrite",
        )
    # An existing file is opened as it will be, so that a header that does not fit is found now.
    open_writer(path, existing="replace" if existing == "continue" else existing).discard()


def _sentence(error: ShoalError) -> str:
    words = str(error)
    return words if words.endswith(".") else f"{words}."

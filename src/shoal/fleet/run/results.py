"""Writes the items of a run to the user's output while the run is in progress."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal, Self

from shoal.core.errors import DutyFailed, ExportFailed, InvalidSetting, ShoalError, UnknownRun
from shoal.core.model import StoredItem
from shoal.core.urls import is_object_url
from shoal.export.contract import Writer
from shoal.export.follow import follow
from shoal.export.open import Existing, can_follow, exporter_of, open_writer
from shoal.export.stream import export
from shoal.export.tables.address import is_table
from shoal.export.target import STDOUT
from shoal.fleet.command_hints import command_on, joined
from shoal.fleet.run.output_file import open_output
from shoal.queue.contract import Queue
from shoal.queue.outages import FULL, describe_disk

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
        self._file = open_output(queue, path) if path and is_file else None
        self._existing: OutputMode = existing
        # An output that cannot be written is refused before anything is fetched.
        if path:
            check_output(path, existing)

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
            start = await self._file.begin_rows(self._run_id)
            await export(lambda: self._items_after(0), open_writer(path, existing="append"))
            await self._file.end_rows(self._run_id, start)

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
        if is_full and self._path and self._file and not is_object_url(self._path):
            return f"{error.reason} on {describe_disk(Path(self._path))}"
        return error.reason

    def _items_after(self, after: int) -> AsyncIterator[StoredItem]:
        return self._queue.items(self._run_id, after=after)

    async def _total_if_known(self) -> int | None:
        return self._total


def output_mode(*, is_new: bool, overwrite: bool, append: bool) -> OutputMode:
    """Return what becomes of an existing output file; a run that is resumed goes on with its own."""
    if overwrite and append:
        raise InvalidSetting("--append", "adds to the file that --overwrite replaces. Use one of them")
    if append:
        return "append"
    return "replace" if overwrite else "refuse" if is_new else "continue"


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

"""Logs of a fleet, human-readable or JSON: one file per worker and one for the fleet, or a single stream."""

import fcntl
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TextIO

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.core.events import STDOUT, Event, Level, level_name
from shoal.core.failures import TRACEBACK
from shoal.core.redact import Redact, redactor
from shoal.core.text import printable
from shoal.core.values import counted
from shoal.queue.outages import FULL, describe_disk

log = logging.getLogger(__name__)
MAX_LAUNCHERS = 100  # that write to one folder at the same time


class LogFile:
    """Appends lines. A full or missing disk loses lines, but never stops the run."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._file: IO[bytes] | None = None
        self._size = 0
        self.error: OSError | None = None  # why the last line was not written
        self._lost = 0  # lines since then

    def write(self, line: str) -> None:
        """Append a line; rotate first if it does not fit."""
        data = line.encode(errors="replace") + b"\n"
        try:
            if self._file is None:
                self._open()
            elif self._size and self._size + len(data) > self._max_bytes:
                self._rotate()
            assert self._file is not None
            self._file.write(data)
        except OSError as error:
            self._lose(error)
            return
        self._size += len(data)
        if self.error:
            self.error, lost, self._lost = None, self._lost, 0
            log.warning("%s is written again; %s lost.", self._path, counted(lost, "line"))

    def _lose(self, error: OSError) -> None:
        is_first, self.error = self.error is None, error
        self._lost += 1
        if is_first:  # said once: this message may be a line of the same file
            where = f" on {describe_disk(self._path)}" if error.errno in FULL else ""
            log.warning(
                "The log %s could not be written: %s%s. The run continues, and lines are lost until it can.",
                self._path,
                error.strerror,
                where,
            )

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        # Unbuffered: what was written survives even if this process is killed.
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        if self._keep:
            self._path.replace(self._numbered(1))
        else:
            self._path.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class LogFolder:
    """A log folder locked by one launcher; a second one at the same time uses the subfolder `2`.

    Raises InvalidSetting, which says what to type instead.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            reason = (
                f"must be a folder, got the file {folder}. Name a folder, or write --log-dir - for stdout"
            )
            raise InvalidSetting("--log-dir", reason)
        for number in range(1, MAX_LAUNCHERS + 1):
            self.path = folder if number == 1 else folder / str(number)
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                reason = f"cannot be written: {self.path}: {error.strerror}. Name another folder"
                raise InvalidSetting("--log-dir", f"{reason}, or write --log-dir - for stdout") from error
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
            else:
                return
        reason = f"is in use by {MAX_LAUNCHERS} others: {folder}. Name another folder"
        raise InvalidSetting("--log-dir", reason)

    def close(self) -> None:
        """Release the folder."""
        os.close(self._lock)


MAX_BUFFERED = 8 << 20  # bytes that wait for a slow reader
CLOSE_TIMEOUT_SECONDS = 5.0  # for the reader to take the last lines


class Stream(StrEnum):
    """A stream of this process that receives log lines, instead of a folder."""

    STDOUT = "stdout"
    STDERR = "stderr"


class LogStream:
    """Writes lines to a stream. A slow or closed reader loses lines, but never stops the run.

    The process that writes also extends leases, so it must not wait for a full pipe or a stopped terminal.
    A thread does, as no poll tells how much a terminal takes. It starts with the first line: the fork server
    may be forked off this process before.
    """

    def __init__(self, stream: Stream) -> None:
        file = sys.stdout if stream is Stream.STDOUT else sys.stderr
        self._descriptor = descriptor_of(file)
        self._file = file if self._descriptor is None else None
        self._buffer: deque[bytes] = deque()
        self._size = 0
        self._lost = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Write a line as soon as the stream takes it."""
        if self._file:
            self._file.write(f"{line}\n")
            self._file.flush()
            return
        self.write_bytes(line.encode(errors="replace") + b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Write bytes as soon as the stream takes them: all or none."""
        with self._changed:
            # Once lines are lost, all are until the buffer is empty: the gap is in one place, which is named.
            if self._lost or self._size + len(data) > MAX_BUFFERED:
                self._lost += 1
                return
            self._put(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_buffer, name="log stream", daemon=True)
                self._thread.start()

    def close(self, timeout: float | None = CLOSE_TIMEOUT_SECONDS) -> None:
        """Wait until the reader has taken the buffered lines, no longer than this; the stream stays open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._buffer, timeout)

    def _put(self, data: bytes) -> None:
        self._buffer.append(data)
        self._size += len(data)
        self._changed.notify_all()

    def _write_buffer(self) -> NoReturn:
        assert self._descriptor is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._buffer)
                data = self._buffer[0]
            with suppress(OSError):  # the reader is gone, or the disk behind it is full
                _write_all(self._descriptor, data)
            with self._changed:
                self._buffer.popleft()
                self._size -= len(data)
                self._report_lost()
                self._changed.notify_all()

    def _report_lost(self) -> None:
        if self._lost and not self._buffer:
            lost, self._lost = self._lost, 0
            self._put(f"({lost} lines are missing here: their reader was too slow)\n".encode())


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another program has made it non-blocking, and would not expect a change
            select.select([], [descriptor], [])


def descriptor_of(file: TextIO) -> int | None:
    """Return the descriptor of a stream, once it has written what it buffers; None if it has none."""
    try:
        file.flush()
        return file.fileno()
    except (OSError, ValueError):  # replaced by an object without a file descriptor, as in tests
        return None


MAX_BYTES = 10 << 20  # per file
MAX_OLD_FILES = 5  # rotated files of each log
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+@…,%~*")

Fields = Mapping[str, Any]


class LogFormat(StrEnum):
    """Format of a log line."""

    HUMAN = "human"
    JSON = "json"


class LogPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Log settings: target (a folder, or a stream for containers), format, level and rotation."""

    folder: Path | Stream
    format: LogFormat = LogFormat.HUMAN
    level: Level = Level.INFO
    most_bytes: int = MAX_BYTES
    keep: int = MAX_OLD_FILES

    @property
    def is_stream(self) -> bool:
        """Whether log lines go to stdout or stderr."""
        return isinstance(self.folder, Stream)

    def check(self) -> None:
        """Create the folder; raises InvalidSetting if that fails."""
        if isinstance(self.folder, Path):
            LogFolder(self.folder).close()

    def within(self, name: str) -> Self:
        """Return the plan with a subfolder of this name; a stream has none."""
        return self if isinstance(self.folder, Stream) else replace(self, folder=self.folder / name)

    def off_stdout(self) -> Self:
        """Return the plan with stderr instead of stdout, for a command that writes data to stdout."""
        return replace(self, folder=Stream.STDERR) if self.folder is Stream.STDOUT else self


STDOUT_NAME = "-"


def read_log_target(text: str) -> Path | Stream:
    """Read the log target: a folder, or `-` for stdout."""
    return Stream.STDOUT if text == STDOUT_NAME else Path(text)


class LogWriter:
    """Writes the log of one worker, or of the fleet."""

    def __init__(self, write: Callable[[str], None], render: Callable[[Event], str], level: int) -> None:
        self._write, self._render, self._level = write, render, level

    def log(self, level: int, name: str, **fields: Any) -> None:
        """Write an event that happens now."""
        self.write(Event(at=time.time(), level=level, name=name, fields=fields))

    def write(self, event: Event, **fields: Any) -> None:
        """Write an event, with extra fields."""
        if event.level >= self._level:
            whole = msgspec.structs.replace(event, fields={**fields, **event.fields}) if fields else event
            self._write(self._render(whole))

    def log_output(self, line: str, **fields: Any) -> None:
        """Write a line that a worker printed."""
        self.log(Level.INFO, STDOUT, **fields, message=line)


SILENT = LogWriter(lambda line: None, lambda event: "", Level.OFF)


class LogDirectory(AbstractContextManager["LogDirectory"]):
    """The logs of one launcher; without a plan nothing is written."""

    def __init__(self, plan: LogPlan | None, *, secrets: Iterable[str] = ()) -> None:
        self._plan = plan
        self._folder = LogFolder(plan.folder) if plan and isinstance(plan.folder, Path) else None
        self._stream = LogStream(plan.folder) if plan and isinstance(plan.folder, Stream) else None
        self._files: dict[str, LogFile] = {}
        self._redact = redactor(secrets)
        self.fleet = self._writer("fleet")

    @property
    def is_stream(self) -> bool:
        """Whether all logs go to one stream, which a person may be reading."""
        return self._stream is not None

    @property
    def level(self) -> int:
        """The lowest level that is written."""
        return self._plan.level if self._plan else Level.OFF

    def worker(self, number: int) -> LogWriter:
        """Return the log of the worker in this slot, counted from 1; a worker that replaces it appends."""
        return self._writer(f"worker-{number}")

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()
        if self._folder:
            self._folder.close()
        if self._stream:
            self._stream.close()

    def _writer(self, name: str) -> LogWriter:
        if self._plan is None:
            return SILENT
        write = self._stream.write if self._stream else self._file(name, self._plan).write
        is_json = self._plan.format is LogFormat.JSON
        render = as_json if is_json else as_text
        return LogWriter(write, lambda event: render(event, self._redact), self._plan.level)

    def _file(self, name: str, plan: LogPlan) -> LogFile:
        if name not in self._files:
            assert self._folder is not None, "a plan without a stream has a folder"
            path = self._folder.path / f"{name}.log"
            self._files[name] = LogFile(path, max_bytes=plan.most_bytes, keep=plan.keep)
        return self._files[name]


def as_json(event: Event, redact: Redact = str) -> str:
    """Return an event as a line of JSON."""
    head = {"at": _timestamp(event.at), "level": level_name(event.level), "event": event.name}
    fields = {name: _redacted(value, redact) for name, value in event.fields.items() if name not in head}
    return msgspec.json.encode(head | fields, enc_hook=str).decode()


def as_text(event: Event, redact: Redact = str) -> str:
    """Return an event as a human-readable line, with the lines of a traceback below it."""
    fields = {name: _redacted(value, redact) for name, value in event.fields.items()}
    trace = str(fields.pop(TRACEBACK, ""))
    words = (f"{name}={_quote(value)}" for name, value in fields.items())
    line = " ".join([_timestamp(event.at), f"{level_name(event.level):7}", event.name, *words])
    return "\n".join([line, *(f"    {printable(each)}" for each in trace.split("\n") if each)])


def _redacted(value: Any, redact: Redact) -> Any:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(name)): _redacted(one, redact) for name, one in value.items()}
        case list() | tuple():
            return [_redacted(one, redact) for one in value]
        case _:
            return value


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quote(value: Any) -> str:
    if isinstance(value, str) and value and set(value) <= _PLAIN:
        return value
    text = msgspec.json.encode(value, enc_hook=str).decode()
    # Page content must not colour, move or clear the terminal that shows the log.
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


NO_LOGS = LogDirectory(None)

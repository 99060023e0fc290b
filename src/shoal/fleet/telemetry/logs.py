"""Logs of a fleet, human-readable or JSON: one file per worker and one for the fleet, or a single stream."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import msgspec

from shoal.core.events import STDOUT, Event, Level, level_name
from shoal.core.failures import TRACEBACK
from shoal.core.redact import Redact, redactor
from shoal.core.text import printable
from shoal.fleet.telemetry.logfile import LogFile, LogFolder, check_folder
from shoal.fleet.telemetry.logstream import LogStream, Stream

MAX_BYTES = 10 << 20  # per file
MAX_OLD_FILES = 5  # rotated files of each log
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+@…,%~*")

Fields = Mapping[str, Any]


class LogFormat(StrEnum):
    """Format of a log line."""

    HUMAN = "human"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
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
            check_folder(self.folder)

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
    def folder(self) -> Path | None:
        """The folder of the log files; None with a stream."""
        return self._folder.path if self._folder else None

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

"""The logs of a fleet, for people or machines: a file for each worker and one for all, or one stream."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from shoal.core.events import PRINTED, Event, Level, level_name
from shoal.core.redact import Redact, redactor
from shoal.fleet.logfile import LogFile, LogFolder, check_folder
from shoal.fleet.logstream import LogStream, Stream

MOST_BYTES = 10 << 20  # of one file
KEEP = 5  # older files of each
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+@…,%~*")

Fields = Mapping[str, Any]


class LogFormat(StrEnum):
    """How a line looks."""

    HUMAN = "human"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """Where logs go (a folder, or a stream as containers have it), how they look and what they hold."""

    folder: Path | Stream
    format: LogFormat = LogFormat.HUMAN
    level: Level = Level.INFO
    most_bytes: int = MOST_BYTES
    keep: int = KEEP

    @property
    def is_stream(self) -> bool:
        """Whether the lines go to stdout or stderr."""
        return isinstance(self.folder, Stream)

    def check(self) -> None:
        """Make the folder; raises InvalidSetting where that cannot be done."""
        if isinstance(self.folder, Path):
            check_folder(self.folder)

    def within(self, name: str) -> Self:
        """Return the plan with a folder of this name inside its own; a stream has none."""
        return self if isinstance(self.folder, Stream) else replace(self, folder=self.folder / name)

    def off_stdout(self) -> Self:
        """Return the plan with stderr in place of stdout, for a command that writes data to stdout."""
        return replace(self, folder=Stream.STDERR) if self.folder is Stream.STDOUT else self


STDOUT_NAME = "-"


def log_place(text: str) -> Path | Stream:
    """Read where logs go: a folder, or `-` for stdout."""
    return Stream.STDOUT if text == STDOUT_NAME else Path(text)


class Book:
    """The log of one worker, or of the fleet."""

    def __init__(self, write: Callable[[str], None], render: Callable[[Event], str], level: int) -> None:
        self._write, self._render, self._level = write, render, level

    def note(self, level: int, name: str, **fields: Any) -> None:
        """Write down an event of now."""
        self.put(Event(at=time.time(), level=level, name=name, fields=fields))

    def put(self, event: Event, **fields: Any) -> None:
        """Write down an event, and what else is known about it."""
        if event.level >= self._level:
            whole = msgspec.structs.replace(event, fields={**fields, **event.fields}) if fields else event
            self._write(self._render(whole))

    def printed(self, line: str, **fields: Any) -> None:
        """Write down what a worker printed."""
        self.note(Level.INFO, PRINTED, **fields, message=line)


SILENT = Book(lambda line: None, lambda event: "", Level.OFF)


class Library(AbstractContextManager["Library"]):
    """The books of one launcher; without a plan they are silent."""

    def __init__(self, plan: LogPlan | None, *, secrets: Iterable[str] = ()) -> None:
        self._plan = plan
        self._folder = LogFolder(plan.folder) if plan and isinstance(plan.folder, Path) else None
        self._stream = LogStream(plan.folder) if plan and isinstance(plan.folder, Stream) else None
        self._files: dict[str, LogFile] = {}
        self._redact = redactor(secrets)
        self.fleet = self._book("fleet")

    @property
    def folder(self) -> Path | None:
        """Where the books are."""
        return self._folder.path if self._folder else None

    @property
    def is_stream(self) -> bool:
        """Whether all books are written to one stream, where a person may read them at once."""
        return self._stream is not None

    @property
    def level(self) -> int:
        """From which level on events are written down."""
        return self._plan.level if self._plan else Level.OFF

    def worker(self, number: int) -> Book:
        """Return the book of the worker in this place, counted from 1; whoever follows it writes on."""
        return self._book(f"worker-{number}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        if self._folder:
            self._folder.close()
        if self._stream:
            self._stream.close()

    def _book(self, name: str) -> Book:
        if self._plan is None:
            return SILENT
        write = self._stream.write if self._stream else self._file(name, self._plan).write
        is_json = self._plan.format is LogFormat.JSON
        render = as_json if is_json else as_text
        return Book(write, lambda event: render(event, self._redact), self._plan.level)

    def _file(self, name: str, plan: LogPlan) -> LogFile:
        if name not in self._files:
            assert self._folder is not None, "a plan without a stream has a folder"
            path = self._folder.path / f"{name}.log"
            self._files[name] = LogFile(path, most=plan.most_bytes, keep=plan.keep)
        return self._files[name]


def as_json(event: Event, redact: Redact = str) -> str:
    """Return an event as a line of JSON."""
    head = {"at": _moment(event.at), "level": level_name(event.level), "event": event.name}
    fields = {name: _hidden(value, redact) for name, value in event.fields.items() if name not in head}
    return msgspec.json.encode(head | fields, enc_hook=str).decode()


def as_text(event: Event, redact: Redact = str) -> str:
    """Return an event as a line that people read."""
    words = (f"{name}={_shown(_hidden(value, redact))}" for name, value in event.fields.items())
    return " ".join([_moment(event.at), f"{level_name(event.level):7}", event.name, *words])


def _hidden(value: Any, redact: Redact) -> Any:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(name)): _hidden(one, redact) for name, one in value.items()}
        case list() | tuple():
            return [_hidden(one, redact) for one in value]
        case _:
            return value


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and set(value) <= _PLAIN:
        return value
    text = msgspec.json.encode(value, enc_hook=str).decode()
    # What a page brought in must not colour, move or clear the terminal that shows the log.
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


NO_LIBRARY = Library(None)

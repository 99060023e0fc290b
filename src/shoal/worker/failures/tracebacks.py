"""Errors of the user's code as text: tracebacks without secrets, and breakpoints that cannot work here."""

import os
import re
import shlex
import sys
from bdb import BdbQuit
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from traceback import FrameSummary, TracebackException, walk_tb
from types import TracebackType
from typing import Any

import msgspec

from shoal.core.commands import shoal_command
from shoal.core.errors import BreakpointRefused
from shoal.core.failures import MAX_TRACEBACK
from shoal.core.model import Lease
from shoal.core.redact import Redact, redacted
from shoal.core.text import printable
from shoal.scrape.step import Step

MAX_FRAMES = 20  # of one exception
MAX_CHAINED = 5  # exceptions that led to another, and members of a group
MAX_DEPTH = 50  # of such a chain
MAX_LINE = 300  # characters
SHOAL = "shoal"
_SHOAL_FOLDER = str(Path(__file__).parents[2])
_STANDARD_FOLDER = str(Path(os.__file__).parent)  # `sysconfig` knows it too, but takes 4 ms to import
_SITE_PACKAGES = ("site-packages", "dist-packages")
_MODULE_OF_FILE = re.compile(r"^shoal_scraper_\w+\.")  # as `scrape/load.py` names the module of a file


@lru_cache(maxsize=10_000)
def library_of(filename: str) -> str | None:
    """Return the name of the library that a file belongs to; None for the user's own code."""
    if filename.startswith("<frozen"):
        return "python"
    if filename.startswith(_SHOAL_FOLDER + os.sep):
        return SHOAL
    parts = Path(filename).parts
    for marker in _SITE_PACKAGES:
        if marker in parts[:-1]:
            return parts[parts.index(marker) + 1].removesuffix(".py")
    if filename.startswith(_STANDARD_FOLDER + os.sep):
        return Path(filename).relative_to(_STANDARD_FOLDER).parts[0].removesuffix(".py")
    return None


class TracebackFormatter(msgspec.Struct, frozen=True):
    """Formats tracebacks without secrets.

    `own` is the library that the scraper belongs to, if it is installed as one: its frames are the user's.
    """

    own: str | None = None
    redact: Redact = redacted

    @classmethod
    def for_code(cls, filename: str, redact: Redact = redacted) -> "TracebackFormatter":
        """Return the formatter for a scraper in this file."""
        own = library_of(filename)
        return cls(None if own == SHOAL else own, redact)

    def find_line(self, error: BaseException, *, own: bool = False) -> str:
        """Return the innermost line of the user's code as " (books.py:12 in book)", else of any code.

        With `own`, only of the user's code.
        """
        frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
        mine = [one for one in frames if self._library(one[0].co_filename) is None]
        found = mine or ([] if own else frames)
        if not found:
            return ""
        code, line = found[-1]
        return f" ({Path(code.co_filename).name}:{line} in {code.co_name})"

    def is_from_user(self, error: BaseException) -> bool:
        """Return whether the user's code has raised an error, or Shoal when it was called by that code."""
        libraries = [
            library
            for frame, _ in walk_tb(error.__traceback__)
            if (library := self._library(frame.f_code.co_filename)) != SHOAL
        ]
        return bool(libraries) and libraries[-1] is None

    def format(self, error: BaseException) -> str:
        """Return the traceback from the user's code on; empty if none of that code was running."""
        if not any(self._has_user_frame(one.__traceback__) for one in _chain(error)):
            return ""
        sections = list(self._sections(TracebackException.from_exception(error, compact=True)))
        return shortened("\n".join(sections))

    def format_frames(self, frames: Sequence[FrameSummary]) -> list[str]:
        """Return the user's frames with their source, and each group of others as one line."""
        groups = [
            (name, list(group)) for name, group in groupby(frames, lambda one: self._library(one.filename))
        ]
        # What has called the user's code, such as a worker, says nothing about the error.
        while len(groups) > 1 and groups[0][0] is not None:
            del groups[0]
        entries: list[str] = []
        for name, group in groups:
            entries += _collapse(map(self._describe, group)) if name is None else [_fold(name, group)]
        if len(entries) > MAX_FRAMES:
            half, skipped = MAX_FRAMES // 2, len(entries) - MAX_FRAMES
            entries = [*entries[:half], f"  … {skipped} frames left out", *entries[-half:]]
        return entries

    def _sections(self, error: TracebackException, depth: int = 0) -> Iterator[str]:
        """Yield the text of each exception of a chain, the one that was raised first first."""
        earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if earlier is not None and depth < MAX_CHAINED:
            yield from self._sections(earlier, depth + 1)
            yield "which is the cause of:" if error.__cause__ else "and while that was handled:"
        elif earlier is not None:
            yield "… earlier exceptions left out"
        message = "".join(error.format_exception_only()).rstrip("\n")
        message = self.redact(_MODULE_OF_FILE.sub("", message, count=1))
        yield "\n".join([*self.format_frames(error.stack), *map(_cut, message.split("\n"))])
        for one in (error.exceptions or ())[:MAX_CHAINED] if depth < MAX_CHAINED else ():
            for section in self._sections(one, depth + 1):
                yield "\n".join(f"  | {line}" for line in section.split("\n"))

    def _describe(self, frame: FrameSummary) -> str:
        place = f'  File "{printable(shown_path(frame.filename))}", line {frame.lineno}, in {frame.name}'
        return f"{place}\n    {_cut(self.redact(frame.line))}" if frame.line else place

    def _has_user_frame(self, trace: TracebackType | None) -> bool:
        return any(self._library(frame.f_code.co_filename) is None for frame, _ in walk_tb(trace))

    def _library(self, filename: str) -> str | None:
        name = library_of(filename)
        return None if name == self.own else name


def shortened(text: str) -> str:
    """Return a text of many lines; if it is too long, without whole lines in its middle."""
    if len(text) <= MAX_TRACEBACK:
        return text
    mark = "\n  … left out …\n"
    room = MAX_TRACEBACK - len(mark)
    return text[: room // 3].rpartition("\n")[0] + mark + text[-(room - room // 3) :].partition("\n")[2]


def shown_path(filename: str) -> str:
    """Return a path relative to the current folder, or to the user's home, if it is inside one of them."""
    for folder, prefix in _known_folders():
        if filename.startswith(f"{folder}{os.sep}"):
            return f"{prefix}{filename[len(folder) + 1 :]}"
    return filename


@lru_cache(maxsize=1)
def _known_folders() -> list[tuple[str, str]]:
    folders = []
    for find, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        try:
            folders.append((str(find()).rstrip(os.sep), prefix))
        except (OSError, RuntimeError):
            continue  # the current folder was deleted, or the user has no home
    return [(folder, prefix) for folder, prefix in folders if folder]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < MAX_DEPTH:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting += (one.__cause__, None if one.__suppress_context__ else one.__context__)


def _collapse(entries: Iterable[str]) -> Iterator[str]:
    """Yield the entries, of equal ones in a row only the first: a recursion has a thousand."""
    for entry, group in groupby(entries):
        yield entry
        if repeated := sum(1 for _ in group) - 1:
            yield f"  … {repeated} {'frame' if repeated == 1 else 'frames'} more of the same"


def _fold(library: str, frames: Sequence[FrameSummary]) -> str:
    last, count = frames[-1], len(frames)
    place = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"  … {count} {'frame' if count == 1 else 'frames'} in {library} ({place})"


def _cut(line: str) -> str:
    line = printable(line)
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


PDB = ("", "pdb.set_trace")  # values of PYTHONBREAKPOINT that need a terminal; others may not


def refuse_breakpoints() -> None:
    """Make `breakpoint()` raise BdbQuit in this process, unless PYTHONBREAKPOINT names another debugger."""
    sys.breakpointhook = _quit


def _quit(*args: Any, **kwargs: Any) -> Any:
    if os.environ.get("PYTHONBREAKPOINT", "") in PDB:
        raise BdbQuit
    return sys.__breakpointhook__(*args, **kwargs)


def explain_quit(lease: Lease, step: Step, *, is_first: bool) -> BreakpointRefused:
    """Return the error for a step whose debugger has ended at once, with the command to type."""
    url, file = lease.task.url, shlex.quote(shown_path(step.filename))
    if is_first and url:
        command = f"shoal run --debug {file} --url {shlex.quote(url)}"
    else:
        command = shoal_command(f"dead shell {lease.run_id} {lease.task_id} {file}") + ", and there: run()"
    return BreakpointRefused(step.name, command)

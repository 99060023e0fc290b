"""The `shoal` command."""

import logging
import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from shoal.cli.console import print_error, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.registry import app_for
from shoal.core.errors import (
    ExportUnavailable,
    InvalidInput,
    MissingDriver,
    NobodyListens,
    QueueUnavailable,
    RunConflict,
    ScraperBusy,
    ShoalError,
    UnknownLetter,
    UnknownQueue,
    UnknownRun,
)
from shoal.fleet.command_hints import joined, queue_option
from shoal.fleet.project.file import Project

NEEDS_QUEUE = re.compile(r"shoal (runs|status|watch|dead|purge|proxies|tokens)\b[^.]*$")


class _StderrHandler(logging.Handler):
    """Prints the library's warnings, such as waiting for a server."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def main(script: str | None = None) -> None:
    """Run the typed command; every error becomes one line and an exit code.

    `script` is how a file that has this command was started.
    """
    _open_standard_streams()
    logging.getLogger("shoal").addHandler(_StderrHandler(logging.WARNING))
    try:
        Project.find(Path.cwd()).set_environment()
        app_for(next(iter(sys.argv[1:]), "--help"), script)(prog_name=script)
    except ShoalError as error:
        message = add_queue_option(str(error), sys.argv)
        if "--json" in sys.argv:
            put_json({"error": type(error).__name__, "message": message})
        print_error(message)
        for note in getattr(error, "__notes__", ()):  # such as the traceback of a task
            say(note)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has closed the pipe, as `head` does.
        sys.stderr.close()
        sys.exit(Exit.OK)


def _open_standard_streams() -> None:
    # Whatever started this may have closed some. Files that got their numbers would be taken for them.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def add_queue_option(message: str, typed: Sequence[str]) -> str:
    """Return a message with the typed --queue added, if it ends in a command that needs it."""
    given = [after for word, after in pairwise(typed) if word == "--queue"]
    given += [word.removeprefix("--queue=") for word in typed if word.startswith("--queue=")]
    if not given or not NEEDS_QUEUE.search(message):
        return message
    return f"{message} {joined(queue_option(given[-1]))}".rstrip()


def exit_code(error: ShoalError) -> Exit:
    """Return the exit code for an error."""
    match error:
        case ScraperBusy():
            return Exit.BUSY
        case QueueUnavailable() | ExportUnavailable() | NobodyListens():
            return Exit.UNAVAILABLE
        case (
            InvalidInput() | UnknownQueue() | UnknownRun() | UnknownLetter() | RunConflict() | MissingDriver()
        ):
            return Exit.USAGE
        case _:
            return Exit.FAILED

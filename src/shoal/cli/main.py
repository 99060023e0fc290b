"""The `shoal` command."""

import logging
import sys
from pathlib import Path

from shoal.cli.commands import app_for
from shoal.cli.console import complain, put_json, say
from shoal.cli.exits import Exit
from shoal.core.errors import (
    ExportUnavailable,
    InvalidInput,
    MissingDriver,
    NobodyListens,
    QueueUnavailable,
    ScraperBusy,
    ShoalError,
    UnknownLetter,
    UnknownQueue,
    UnknownRun,
)
from shoal.fleet.project import Project


class _Talk(logging.Handler):
    """Passes on what the library has to say: that it waits for a server, for instance."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def main() -> None:
    """Run the command that was typed; every error ends in one line and an exit code."""
    logging.getLogger("shoal").addHandler(_Talk(logging.WARNING))
    try:
        Project.find(Path.cwd()).set_environment()
        app_for(next(iter(sys.argv[1:]), "--help"))()
    except ShoalError as error:
        if "--json" in sys.argv:
            put_json({"error": type(error).__name__, "message": str(error)})
        complain(str(error))
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has seen enough.
        sys.stderr.close()
        sys.exit(Exit.OK)


def exit_code(error: ShoalError) -> Exit:
    """Return the exit code for an error."""
    match error:
        case ScraperBusy():
            return Exit.BUSY
        case QueueUnavailable() | ExportUnavailable() | NobodyListens():
            return Exit.UNAVAILABLE
        case InvalidInput() | UnknownQueue() | UnknownRun() | UnknownLetter() | MissingDriver():
            return Exit.USAGE
        case _:
            return Exit.FAILED

"""The `shoal` command."""

import logging
import sys
from collections.abc import Sequence

from typer.main import get_command

from shoal.cli.configuration import option_defaults, read_config
from shoal.cli.console import print_error, put_json, put_line, say
from shoal.cli.exits import Exit
from shoal.cli.registry import app_for
from shoal.core.errors import (
    ExportUnavailable,
    InvalidInput,
    InvalidSetting,
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
from shoal.fleet.project.config import Config
from shoal.fleet.standard_streams import open_standard_streams
from shoal.scrape.seeds import prints_to_stderr


class _StderrHandler(logging.Handler):
    """Prints the library's warnings, such as waiting for a server."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if "--json" in sys.argv:
                put_line({"message": self.format(record), "level": record.levelname.lower()})
            else:
                say(self.format(record))
        except OSError:
            # A worker that has outlived its launcher finishes its tasks, whether or not it can print.
            self.handleError(record)


def main(script: str | None = None) -> None:
    """Run the typed command; every error becomes one line and an exit code.

    `script` is how a file that has this command was started.
    """
    open_standard_streams()
    logging.getLogger("shoal").addHandler(_StderrHandler(logging.WARNING))
    config = None
    try:
        prints_to_stderr.set(True)
        config = read_config()
        command = get_command(app_for(next(iter(sys.argv[1:]), "--help"), script))
        command(prog_name=script, default_map=option_defaults(command, config))
    except ShoalError as error:
        message = str(error)
        if config:
            message = add_source(message, error, sys.argv, config)
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


def add_source(message: str, error: ShoalError, typed: Sequence[str], config: Config) -> str:
    """Return a message with the variable or line that set the option it is about, unless it was typed."""
    option = error.key if isinstance(error, InvalidSetting) else ""
    if isinstance(error, (UnknownQueue, QueueUnavailable)):
        option = "--queue"
    source = config.source_of_option(option) if option else None
    if source is None or any(word == option or word.startswith(f"{option}=") for word in typed):
        return message
    return f"{message} ({option} is from {source})"


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

"""The `shoal` command."""

import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import (
    bench,
    check,
    dead,
    demo,
    enqueue,
    export,
    fleet,
    look,
    metrics,
    migrate,
    new,
    partitions,
    records,
    route,
    run,
    scale,
    scrape,
    scrapers,
    shell,
    stale,
    start,
    steer,
    top,
    work,
)
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
    UnknownQueue,
    UnknownRun,
)
from shoal.fleet.project import Project

app = typer.Typer(
    name="shoal",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"shoal {version('shoal')}\n")
        raise typer.Exit


@app.callback()
def shoal(
    show_version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Scrape at scale: write one scraper, run it here or on hundreds of workers."""


app.command()(run.run)
app.command()(enqueue.enqueue)
app.command()(work.work)
app.command()(fleet.fleet)
app.command()(scale.scale)
app.command()(start.start)
app.command()(scrape.listen)
app.command()(scrape.scrape)
app.command()(scrapers.scrapers)
app.command()(route.route)
app.command()(look.status)
app.command()(records.records)
app.command()(partitions.partitions)
app.command()(look.watch)
app.command()(look.runs)
app.command()(look.workers)
app.command()(look.hosts)
app.command()(stale.stale)
app.command()(top.top)
app.command()(metrics.metrics)
app.command()(steer.pause)
app.command()(steer.resume)
app.command()(steer.cancel)
app.command()(steer.purge)
app.add_typer(dead.app, name="dead")
app.command()(export.export)
app.command()(check.check)
app.command()(migrate.migrate)
app.command()(new.new)
app.command()(shell.shell)
app.command()(demo.demo)
app.command()(bench.bench)


class _Talk(logging.Handler):
    """Passes on what the library has to say: that it waits for a server, for instance."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def main() -> None:
    """Run the command that was typed; every error ends in one line and an exit code."""
    logging.getLogger("shoal").addHandler(_Talk(logging.WARNING))
    try:
        Project.find(Path.cwd()).set_environment()
        app()
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
        case InvalidInput() | UnknownQueue() | UnknownRun() | MissingDriver():
            return Exit.USAGE
        case _:
            return Exit.FAILED

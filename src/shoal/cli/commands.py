"""Every command of `shoal`, in the order of the help; only the one that was typed is loaded."""

import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from shoal.cli.helping import SectionedCommand, group_with
from shoal.core.version import VERSION

# What each command is for, in a line of the help.
LINES = {
    "Run": {
        "run": "Run a scraper here, and write its items",
        "enqueue": "Make a run and fill it with tasks",
        "work": "Work on a run until it is drained, here and anywhere else",
        "fleet": "Check, show the plan, ask, and run with many workers",
        "scale": "Keep as many workers on a run as it can use",
        "start": "Start one machine of a cluster that shoal.toml describes",
    },
    "Scrape on demand": {
        "listen": "Start workers that scrape when they are asked to",
        "scrape": "Scrape one page now, and get its items",
    },
    "Look": {
        "status": "Show how a run is getting on",
        "watch": "Follow a run until it has finished",
        "top": "Show runs, workers, hosts and errors on one screen, live",
        "serve": "Serve live pages and a JSON API of a queue",
        "runs": "List the runs",
        "records": "Show each record's way through the steps",
        "partitions": "Show what is left of each partition, and who has it",
        "workers": "List the workers: what they hold and have done",
        "stale": "Show who holds tasks and has gone silent",
        "hosts": "List the hosts and how they are treated; pause or slow one",
        "proxies": "Show what came by each proxy, and what went wrong",
        "tor": "Show the Tor of each worker",
        "tokens": "Show what is left of each API token",
        "metrics": "Write the metrics of a queue, or serve them",
    },
    "Steer": {
        "pause": "Hand out no task of a run until it is resumed",
        "resume": "Let a paused run go on",
        "cancel": "End a run for good; what it has found stays",
        "purge": "Delete a run with all that it has found",
        "dead": "List, show, replay and drop dead letters",
        "forget": "Forget what runs of a scraper with --dedup have queued",
    },
    "Results": {
        "rejects": "List the items that failed validation, and why",
        "export": "Write a run's items to a file or a table",
    },
    "Write a scraper": {
        "new": "Make a folder with a scraper to begin with",
        "shell": "Fetch a page as a worker would, and try selectors on it",
        "check": "Look at all that a run needs, before it is started",
        "scrapers": "List the scrapers of this project",
        "route": "Show what the routes of shoal.toml decide for a URL",
        "demo": "Scrape four shops on this machine, to see it work",
    },
    "Queue": {
        "migrate": "Bring the queue to this version's schema",
        "bench": "Measure a queue from this machine",
    },
}
COMMANDS = tuple(name for lines in LINES.values() for name in lines)
# The module that holds the function of a command's name, where it has another name.
MODULES = {
    "listen": "scrape",
    "status": "look",
    "watch": "look",
    "runs": "look",
    "workers": "look",
    "pause": "steer",
    "resume": "steer",
    "cancel": "steer",
    "purge": "steer",
}
WITH_MANY_OPTIONS = ("run", "enqueue", "work", "fleet", "scale", "start", "listen")
HELP = ("-h", "--help", "--version")  # words that need no command


def app_for(typed: str | None = None) -> typer.Typer:
    """Return the app with the command that was typed, or with all of them if it is not one of them."""
    app = typer.Typer(
        name="shoal",
        cls=group_with(LINES),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog="More about one of them: shoal COMMAND --help. To see it work: shoal demo")(shoal)
    for name in _loaded_for(typed):
        _add(app, name)
    return app


def _loaded_for(typed: str | None) -> Collection[str]:
    # All together take a third of a second to load and to describe.
    if typed in HELP:
        return ()
    return (typed,) if typed in COMMANDS else COMMANDS


def _add(app: typer.Typer, name: str) -> None:
    module = import_module(f"shoal.cli.{MODULES.get(name, name)}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name, cls=SectionedCommand if name in WITH_MANY_OPTIONS else None)(getattr(module, name))


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"shoal {VERSION}\n")
        raise typer.Exit


def shoal(
    show_version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Scrape at scale: write one scraper, run it here or on hundreds of workers."""

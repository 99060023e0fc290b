"""Every command of `shoal`, in help order; only the typed command is imported."""

import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from shoal.cli.options.help import SectionedCommand, group_with
from shoal.core.version import VERSION

# One help line per command, by section.
LINES = {
    "Run": {
        "run": "Run a scraper on this machine and write its items",
        "enqueue": "Create a run and fill it with tasks",
        "work": "Start workers on an existing run, on this or any machine",
        "fleet": "Check, preview and start many workers at once",
        "scale": "Autoscale the workers of a run",
        "start": "Start this machine's part of the cluster in shoal.toml",
    },
    "Scrape on demand": {
        "listen": "Start workers that scrape pages on demand",
        "scrape": "Scrape one page now and print its items",
    },
    "Inspect": {
        "status": "Show the progress of a run",
        "watch": "Follow a run until it finishes",
        "top": "Show runs, workers, hosts and errors on one live screen",
        "serve": "Serve the web dashboard and the JSON API",
        "runs": "List runs, newest first",
        "records": "Trace each record through the steps",
        "partitions": "Show the progress and the owner of each partition",
        "workers": "List workers with their tasks, counts and last heartbeat",
        "stale": "Show leases of workers that no longer respond",
        "hosts": "List hosts with their rate limits and pauses; pause or slow one",
        "proxies": "Show requests, failures and bans of each proxy",
        "tor": "Show the Tor process of each worker",
        "tokens": "Show the remaining quota of each API token",
        "metrics": "Print or serve Prometheus metrics of a queue",
    },
    "Control": {
        "pause": "Pause a run: workers get no more of its tasks",
        "resume": "Resume a paused run",
        "set": "Change the rate and other settings of a run while it runs",
        "cancel": "End a run for good; its results are kept",
        "purge": "Delete a run, or old ones, with all results",
        "dead": "List, show, edit, replay and drop dead letters",
        "forget": "Clear the --dedup history of a scraper",
    },
    "Results": {
        "items": "Show the first items of a run, or a random sample",
        "rejects": "List items that failed validation, with the reasons",
        "export": "Export a run's items to a file or a database table",
    },
    "Write a scraper": {
        "new": "Create a scraper from a template",
        "shell": "Fetch a page as a worker would and try selectors on it",
        "check": "Check the scraper, the queue and this machine before a run",
        "config": "Show each setting and where it comes from",
        "scrapers": "List the scrapers of this project",
        "route": "Show which routes of shoal.toml apply to a URL",
        "demo": "Scrape four bundled demo shops to see Shoal work",
    },
    "Queue": {
        "migrate": "Migrate the queue to this version's schema",
        "bench": "Benchmark a queue from this machine",
    },
}
COMMANDS = tuple(name for lines in LINES.values() for name in lines)
# The module of each command, below `shoal.cli.commands`.
MODULES = {
    **{name: f"crawl.{name}" for name in ("run", "enqueue", "work", "fleet", "scale", "start", "demo")},
    **dict.fromkeys(("listen", "scrape"), "crawl.ondemand"),
    **dict.fromkeys(("status", "watch", "runs", "workers"), "inspect.status"),
    **{
        name: f"inspect.{name}"
        for name in (
            *("top", "serve", "records", "partitions", "stale"),
            *("hosts", "proxies", "tor", "tokens", "metrics"),
        )
    },
    **dict.fromkeys(("pause", "resume", "cancel"), "manage.control"),
    **{
        name: f"manage.{name}"
        for name in ("set", "purge", "dead", "forget", "items", "rejects", "export", "migrate", "bench")
    },
    **{name: f"project.{name}" for name in ("new", "shell", "check", "config", "scrapers", "route")},
}
WITH_MANY_OPTIONS = ("run", "enqueue", "work", "fleet", "scale", "start", "listen")
HELP = ("-h", "--help", "--version")  # arguments that need no command


def app_for(typed: str | None = None, script: str | None = None) -> typer.Typer:
    """Return the app with the typed command, or with every command if none of that name exists.

    `script` is how the file was started whose scraper the commands get.
    """
    app = typer.Typer(
        name="shoal",
        cls=group_with(LINES),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    more = f"Commands that take a scraper get the one of this file: {script} run --url https://…"
    name = script or "shoal"
    also = more if script else "See Shoal work: shoal demo"
    app.callback(epilog=f"Help for a command: {name} COMMAND --help. {also}")(shoal)
    for name in _loaded_for(typed):
        _add(app, name)
    return app


def _loaded_for(typed: str | None) -> Collection[str]:
    # Importing and describing all of them takes a third of a second.
    if typed in HELP:
        return ()
    return (typed,) if typed in COMMANDS else COMMANDS


def _add(app: typer.Typer, name: str) -> None:
    module = import_module(f"shoal.cli.commands.{MODULES[name]}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name, cls=SectionedCommand if name in WITH_MANY_OPTIONS else None)(getattr(module, name))


def _version(requested: bool) -> None:
    if requested:
        sys.stdout.write(f"shoal {VERSION}\n")
        raise typer.Exit


def shoal(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Write one scraper; run it on your laptop or on hundreds of workers."""

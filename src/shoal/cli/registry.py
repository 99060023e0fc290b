"""Every command of `shoal`, by section, and those of plugins; only the typed command is imported."""

import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer

from shoal.cli.options.groups import group_with
from shoal.core.version import VERSION
from shoal.registry.registry import Registry

# One help line per command, by section. Those that few need are listed by their names, so that the help fits
# one screen; their own help says what they do.
LINES = {
    "Run": {
        "run": "Run a scraper on this machine and write its items",
        "enqueue": "Create a run and fill it with tasks",
        "work": "Start workers on an existing run, on this or any machine",
        "fleet": "Check, preview and start many workers at once",
        "schedule": "Repeat runs: every night, every hour, by cron expression",
    },
    "Write a scraper": {
        "new": "Create a project from a template: scraper, tests, shoal.toml",
        "shell": "Fetch a page as a worker would and try selectors on it",
        "check": "Check the scraper, the queue and this machine before a run",
        "config": "Show each setting and where it comes from",
    },
    "Inspect": {
        "status": "Show the progress of a run",
        "top": "Show runs, workers, hosts and errors on one live screen",
        "serve": "Serve the web dashboard and the JSON API",
        "runs": "List runs, newest first",
        "workers": "List workers with their tasks, counts and last heartbeat",
        "hosts": "List hosts with their rate limits and pauses; pause or slow one",
    },
    "Control": {
        "pause": "Pause a run: workers get no more of its tasks",
        "resume": "Resume a paused run",
        "set": "Change the rate and other settings of a run while it runs",
        "cancel": "End a run for good; its results are kept",
        "purge": "Delete a run, or old ones, with all results",
        "dead": "List, show, edit, replay and drop dead letters",
    },
    "Results": {
        "items": "Show the first items of a run, or a random sample",
        "compare": "Show the fields of two runs side by side, and what changed",
        "export": "Export a run's items to a file or a database table",
    },
}
ALSO = {
    "Run": ("scale", "start", "recrawl", "listen", "scrape"),
    "Write a scraper": ("scrapers", "route", "deploy", "plugins", "demo"),
    "Inspect": ("watch", "records", "partitions", "stale", "proxies", "tor", "tokens", "cache", "metrics"),
    "Control": ("accept", "forget", "notify", "migrate", "bench"),
    "Results": ("rejects", "changes"),
}
BY_SECTION = {section: (*lines, *ALSO[section]) for section, lines in LINES.items()}
COMMANDS = tuple(name for names in BY_SECTION.values() for name in names)
# The module of each command, below `shoal.cli.commands`.
MODULES = {
    **{name: f"crawl.{name}" for name in ("run", "enqueue", "work", "fleet", "scale", "start", "demo")},
    **dict.fromkeys(("listen", "scrape"), "crawl.ondemand"),
    **dict.fromkeys(("status", "watch", "runs", "workers"), "inspect.status"),
    **dict.fromkeys(("records", "partitions", "stale"), "inspect.tasks"),
    **dict.fromkeys(("proxies", "tor", "tokens", "cache"), "inspect.fetchers"),
    **dict.fromkeys(("serve", "metrics"), "inspect.serve"),
    **{name: f"inspect.{name}" for name in ("top", "hosts")},
    **dict.fromkeys(("pause", "resume", "cancel", "set", "purge", "forget"), "manage.control"),
    **dict.fromkeys(("items", "rejects"), "manage.results"),
    **dict.fromkeys(("migrate", "bench"), "manage.queue"),
    **{name: f"manage.{name}" for name in ("dead", "export", "changes", "recrawl", "schedule", "notify")},
    **dict.fromkeys(("compare", "accept"), "manage.quality"),
    **dict.fromkeys(("config", "scrapers", "route", "plugins"), "project.show"),
    **{name: f"project.{name}" for name in ("new", "shell", "check", "deploy")},
}
WITH_MANY_OPTIONS = ("run", "enqueue", "work", "fleet", "scale", "start", "listen")
HELP = ("-h", "--help", "--version")  # arguments that need no command


Command = typer.Typer | Callable[..., Any]


def _load(name: str) -> Command:
    module = import_module(f"shoal.cli.commands.{MODULES[name]}")
    found: Command = module.app if hasattr(module, "app") else getattr(module, name)
    return found


def _read_command(value: object) -> Command:
    if not isinstance(value, typer.Typer) and (not callable(value) or isinstance(value, type)):
        raise TypeError("it must be a function with the command's options, or a typer.Typer")
    app = value
    if not isinstance(app, typer.Typer):
        app = typer.Typer()
        app.command()(value)
    typer.main.get_command(app)  # raises if a parameter cannot be an option
    return value


COMMAND_REGISTRY: Registry[Command] = Registry(
    "shoal.commands", "command", {name: partial(_load, name) for name in COMMANDS}, _read_command
)


def app_for(typed: str | None = None, script: str | None = None) -> typer.Typer:
    """Return the app with the typed command, or with every command if none of that name exists.

    `script` is how the file was started whose scraper the commands get.
    """
    app = typer.Typer(
        name="shoal",
        cls=group_with(_lines_for(typed), ALSO),
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


def _lines_for(typed: str | None) -> Mapping[str, Mapping[str, str]]:
    """Return the help lines; those of plugins are read only if help was typed, and nothing is imported."""
    if typed not in HELP[:2]:
        return LINES
    plugins = {name: f"From {one.origin}" for name, one in COMMAND_REGISTRY.plugin_names().items()}
    return {**LINES, "Plugins": plugins} if plugins else LINES


def _loaded_for(typed: str | None) -> Collection[str]:
    # Importing and describing all of them takes a third of a second.
    if typed in HELP:
        return ()
    if typed in COMMANDS or (typed and typed in COMMAND_REGISTRY.plugin_names()):
        return (typed,)
    return COMMANDS


def _add(app: typer.Typer, name: str) -> None:
    command = COMMAND_REGISTRY.find(name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    elif command and name in WITH_MANY_OPTIONS:
        from shoal.cli.options.help import SectionedCommand

        app.command(name, cls=SectionedCommand)(command)
    elif command:
        app.command(name)(command)


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

"""Every command of `shoal`, in the order of the help; only the one that was typed is loaded."""

import sys
from importlib import import_module
from typing import Annotated

import typer

from shoal.core.version import VERSION

# The name of a command, and the module that holds the function of this name.
COMMANDS = {
    "run": "run",
    "enqueue": "enqueue",
    "work": "work",
    "fleet": "fleet",
    "scale": "scale",
    "start": "start",
    "listen": "scrape",
    "scrape": "scrape",
    "scrapers": "scrapers",
    "route": "route",
    "status": "look",
    "records": "records",
    "partitions": "partitions",
    "watch": "look",
    "runs": "look",
    "workers": "look",
    "hosts": "look",
    "proxies": "proxies",
    "tor": "tor",
    "tokens": "tokens",
    "stale": "stale",
    "top": "top",
    "metrics": "metrics",
    "serve": "serve",
    "pause": "steer",
    "resume": "steer",
    "cancel": "steer",
    "purge": "steer",
    "dead": "dead",
    "export": "export",
    "check": "check",
    "migrate": "migrate",
    "new": "new",
    "shell": "shell",
    "demo": "demo",
    "bench": "bench",
}


def app_for(typed: str | None = None) -> typer.Typer:
    """Return the app with the command that was typed, or with all of them if it is not one of them."""
    # All together take a third of a second to load and to describe.
    app = typer.Typer(
        name="shoal",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(shoal)
    for name in [typed] if typed in COMMANDS else COMMANDS:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module = import_module(f"shoal.cli.{COMMANDS[name]}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name)(getattr(module, name))


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

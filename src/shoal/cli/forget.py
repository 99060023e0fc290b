"""`shoal forget`: let the next run with `dedup` queue everything again."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, put_json, say


def forget(
    scraper: options.Scraper,
    queue: options.Queue = options.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: options.Json = False,
) -> None:
    """Forget what the runs of a scraper with --dedup have queued: the next one queues it again.

    Example: shoal forget books.py --yes
    """
    from shoal.fleet.jobs import load
    from shoal.fleet.project import Project

    name = load(Project.find(Path.cwd()), scraper).scraper.name
    if not yes:
        typer.confirm(f"Let the next run of {name} queue all its tasks again?", abort=True, err=True)
    count = ask_existing(queue, lambda opened: opened.forget(name))
    if as_json:
        put_json({"scraper": name, "forgotten": count})
    else:
        say(f"Forgot {counted(count, 'task')} of {name}; what is in its runs stays.")

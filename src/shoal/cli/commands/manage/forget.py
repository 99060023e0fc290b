"""`shoal forget`: clear the `dedup` history of a scraper."""

from typing import Annotated

import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import confirm, counted, put_json, say
from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options import common
from shoal.fleet.build_job import load


def forget(
    scraper: common.Scraper,
    queue: common.Queue = common.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: common.Json = False,
) -> None:
    """Clear the --dedup history of a scraper: its next run queues every task again.

    Example: shoal forget books.py --yes
    """

    name = load(current_project(), scraper).scraper.name
    if not yes:
        confirm(f"Clear the dedup history of {name}? Its next run queues every task again.")
    count = with_existing_queue(queue, lambda opened: opened.forget(name))
    if as_json:
        put_json({"scraper": name, "forgotten": count})
    else:
        say(f"Cleared {counted(count, 'task')} from the dedup history of {name}; its runs are unchanged.")

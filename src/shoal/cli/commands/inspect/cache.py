"""`shoal cache`: what the response cache holds, and how often runs found a page in it."""

from typing import Annotated

import typer

from shoal.cli.console import duration, put_json, put_rows, put_text, size_text
from shoal.cli.open_queue import id_of, with_existing_queue
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.cache import CacheStatus, cache_status
from shoal.fleet.status.rows import CacheUseRow, fields_of
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue


def cache(
    run_id: common.RunFilter = None,
    folder: Annotated[
        str | None,
        typer.Option("--folder", help="Show a cache on this machine's disk instead.", metavar="FOLDER"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show the response cache: its entries, their size and age, and the hit rate of each run.

    Example: shoal cache newest
    """
    found = with_existing_queue(queue, lambda opened: _found(opened, run_id, folder))
    if as_json:
        put_json({"queue": shown_queue(queue), "folder": folder, **fields_of(found.row())})
        return
    put_text(describe(found, folder or shown_queue(queue)))
    put_rows(
        [use.row() for use in found.runs],
        CacheUseRow.columns,
        as_json=False,
        nothing=f"No run has used a cache. To use one: {command_on(queue, 'run FILE --cache 10m')}",
        wide=wide,
    )


def describe(found: "CacheStatus", place: str) -> str:
    """Return the size of a cache in one line."""
    size = found.size
    if size.oldest is None:
        return f"The cache in {place} is empty."
    entries = f"{size.count:,} {'entry' if size.count == 1 else 'entries'}"
    oldest = duration(size.oldest.total_seconds())
    return f"Cache in {place}: {entries}, {size_text(size.bytes)}, the oldest {oldest} old."


async def _found(queue: "Queue", run_id: str | None, folder: str | None) -> "CacheStatus":
    return await cache_status(queue, await id_of(queue, run_id), folder=folder)

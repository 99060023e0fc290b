"""`shoal proxies`, `tor`, `tokens` and `cache`: what pages are fetched with."""

from typing import Annotated

import typer

from shoal.cli.console import counted, duration, put_json, put_text, say, size_text
from shoal.cli.open_queue import id_of, with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.fetch.tor.sync import order_renewal
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.cache import cache_status
from shoal.fleet.status.proxies import proxies as read_proxies
from shoal.fleet.status.rows.fetchers import CacheRow, CacheUseRow, ProxyRow, TokenRow, TorRow
from shoal.fleet.status.rows.row import fields_of
from shoal.fleet.status.tokens import forget as forget_tokens
from shoal.fleet.status.tokens import tokens as read_tokens
from shoal.fleet.status.tor import tors
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue


def proxies(
    run_id: common.MaybeRunId = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show each proxy of a run: pages, success rate, failures by kind, how long it is benched, its workers.

    Example: shoal proxies newest
    """
    _, listed = with_run(queue, run_id, _proxies)
    put_rows(
        listed,
        ProxyRow.columns,
        as_json=as_json,
        nothing=f"No proxy has been used. To use proxies, run: {command_on(queue, 'run … --proxies FILE')}",
        wide=wide,
    )
    benched = sum(one.benched_for is not None for one in listed)
    if benched and not as_json:
        left = "No proxy is available; tasks are waiting." if benched == len(listed) else ""
        say(f"{counted(benched, 'proxy').replace('proxys', 'proxies')} benched. {left}".strip())


async def _proxies(queue: "Queue", run_id: str) -> list[ProxyRow]:
    return [one.row() for one in await read_proxies(queue, run_id)]


def tor(
    run_id: common.MaybeRunId = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Make all workers of the run build new circuits with new exits.")
    ] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show the Tor process of each worker of a run: its state, circuit renewals and restarts.

    Example: shoal tor newest --renew
    """
    _, rows = with_run(queue, run_id, lambda opened, run: _tors(opened, run, renew))
    put_rows(
        rows,
        TorRow.columns,
        as_json=as_json,
        nothing=f"No worker is using Tor. To use it, run: {command_on(queue, 'run … --tor on')}",
        wide=wide,
    )
    if renew and not as_json:
        say("Workers build new circuits within five seconds.")


async def _tors(queue: "Queue", run_id: str, renew: bool) -> list[TorRow]:
    if renew:
        await order_renewal(queue, run_id)
    return [one.row() for one in await tors(queue, run_id)]


def tokens(
    run_id: common.RunFilter = None,
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget",
            help="Clear the stored state of these tokens, so that they are tried again.",
            metavar="NAME|retired|all",
        ),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show API tokens by name: remaining requests, time until reset, and why a token was retired.

    Example: shoal tokens --forget retired
    """
    if forget:
        count = with_existing_queue(queue, lambda opened: forget_tokens(opened, forget))
        say(f"Cleared {counted(count, 'token')}.")
        return
    found = with_existing_queue(queue, lambda opened: _tokens(opened, run_id))
    some = command_on(queue, "run … --tokens 'env:API_TOKENS hosts=api.example.com'")
    nothing = f"No token has been used. Pass some: {some}"
    put_rows(found, TokenRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    if not as_json and any(one.why for one in found):
        again = command_on(queue, "tokens --forget retired")
        say(f"Retired tokens were rejected by the API. If you have fixed them, try again:  {again}")


async def _tokens(queue: "Queue", run_id: str | None) -> list[TokenRow]:
    return [one.row() for one in await read_tokens(queue, await id_of(queue, run_id))]


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
    found = with_existing_queue(queue, lambda opened: _cache(opened, run_id, folder))
    if as_json:
        put_json({"queue": shown_queue(queue), "folder": folder, **fields_of(found)})
        return
    put_text(describe_cache(found, folder or shown_queue(queue)))
    put_rows(
        found.runs,
        CacheUseRow.columns,
        as_json=False,
        nothing=f"No run has used a cache. To use one: {command_on(queue, 'run FILE --cache 10m')}",
        wide=wide,
    )


def describe_cache(found: CacheRow, place: str) -> str:
    """Return the size of a cache in one line."""
    if found.oldest_seconds is None:
        return f"The cache in {place} is empty."
    entries = f"{found.entries:,} {'entry' if found.entries == 1 else 'entries'}"
    oldest = duration(found.oldest_seconds)
    return f"Cache in {place}: {entries}, {size_text(found.bytes)}, the oldest {oldest} old."


async def _cache(queue: "Queue", run_id: str | None, folder: str | None) -> CacheRow:
    return await cache_status(queue, await id_of(queue, run_id), folder=folder)

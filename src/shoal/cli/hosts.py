"""`shoal hosts`: list the hosts, and pause, slow or resume one in every run of the queue."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing, first, say_more
from shoal.cli.console import duration, put_json, put_rows, say
from shoal.cli.look import RunOption
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from shoal.core.model import HostStatus
    from shoal.queue.contract import Queue

app = typer.Typer(invoke_without_command=True, help="List the hosts; pause, slow or resume one.")

Host = Annotated[str, typer.Argument(metavar="HOST", help="The host, as `shoal hosts` lists it.")]
COLUMNS = ("host", "pending", "delayed", "leased", "completed", "dead", "delay_seconds", "paused_seconds")


@app.callback()
def hosts(
    context: typer.Context,
    run_id: RunOption = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    limit: Annotated[int, typer.Option(min=1, help="Show this many.", metavar="N")] = 50,
    after: options.After = None,
    as_json: options.Json = False,
) -> None:
    """List the hosts, how they are treated and what is left to ask of them.

    Example: shoal hosts pause shop.example --for 10m
    """
    if context.invoked_subcommand:
        return
    from shoal.fleet.overview import host_row

    found = ask_existing(queue, lambda opened: _hosts(opened, run_id, limit + 1, after))
    rows = [host_row(host) for host in found[:limit]]
    put_rows(rows, COLUMNS, as_json=as_json, nothing="No host has been asked yet.")
    say_more(found, limit)


@app.command()
def pause(
    host: Host,
    span: Annotated[str, typer.Option("--for", help="For how long: 90s, 10m, 2h.", metavar="TIME")] = "10m",
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Send a host no request for a while, in any run."""
    from shoal.core.values import read_positive_duration

    length = read_positive_duration("--for", span)
    ask_existing(queue, lambda opened: opened.pause_host(host.lower(), length))
    if as_json:
        put_json({"host": host.lower(), "paused_seconds": length.total_seconds()})
        return
    again = typed_on(queue, f"hosts resume {host}")
    say(f"{host} is paused for {duration(length.total_seconds())}. End that with: {again}")


@app.command()
def slow(
    host: Host,
    gap: Annotated[
        str, typer.Option("--gap", help="The least time between two requests: 2s.", metavar="TIME")
    ],
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Keep at least this gap between two requests to a host, in any run."""
    from shoal.core.values import read_positive_duration

    length = read_positive_duration("--gap", gap)
    ask_existing(queue, lambda opened: opened.slow_host(host.lower(), length))
    if as_json:
        put_json({"host": host.lower(), "delay_seconds": length.total_seconds()})
        return
    say(f"{host} is slowed. Lift that with: {typed_on(queue, f'hosts resume {host}')}")


@app.command()
def resume(host: Host, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False) -> None:
    """End the pause of a host, and lift its gap."""
    ask_existing(queue, lambda opened: _resume(opened, host.lower()))
    if as_json:
        put_json({"host": host.lower(), "paused_seconds": 0.0, "delay_seconds": 0.0})
    else:
        say(f"{host} is treated as its runs say.")


async def _resume(queue: "Queue", host: str) -> None:
    await queue.pause_host(host, timedelta(0))
    await queue.slow_host(host, timedelta(0))


async def _hosts(queue: "Queue", run_id: str | None, limit: int, after: str | None) -> "list[HostStatus]":
    return [host async for host in first(queue.hosts(run_id, after=after), limit)]

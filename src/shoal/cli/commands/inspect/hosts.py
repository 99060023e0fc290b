"""`shoal hosts`: list hosts, and pause, slow or resume one for every run of the queue."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shoal.cli.console import duration, put_json, say
from shoal.cli.open_queue import DEFAULT_LIMIT, id_of, say_more, say_queue, with_existing_queue
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.model import HostStatus
from shoal.core.tasks import first
from shoal.core.values import read_positive_duration
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.find import describe_unknown_host
from shoal.fleet.status.overview import host_row
from shoal.fleet.status.rows.workers import HostRow
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue


class HostCommands(TyperGroup):
    """Takes a run, as the other commands that inspect one do, where no subcommand is typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        has_run = args and args[0] not in self.commands and not args[0].startswith("-")
        is_alone = has_run and (len(args) == 1 or args[1].startswith("-"))
        return super().parse_args(ctx, ["--run", *args] if is_alone else args)


app = typer.Typer(
    cls=HostCommands,
    invoke_without_command=True,
    subcommand_metavar="[RUN] | pause|slow|resume HOST",
    help="List hosts, of one run or of all; pause, slow or resume one.",
)

Host = Annotated[str, typer.Argument(metavar="HOST", help="Host, as `shoal hosts` lists it.")]


@app.callback()
def hosts(
    context: typer.Context,
    run_id: common.RunOption = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = DEFAULT_LIMIT,
    after: common.After = None,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """List hosts with their task counts, rate limits and pauses.

    Example: shoal hosts pause shop.example --for 10m
    """
    if context.invoked_subcommand:
        return

    found = with_existing_queue(queue, lambda opened: _hosts(opened, run_id, limit + 1, after))
    if not as_json:
        say_queue(queue)
    put_rows(
        map(host_row, found[:limit]),
        HostRow.columns,
        as_json=as_json,
        nothing=_nothing(run_id, after),
        wide=wide,
        queue=shown_queue(queue),
    )
    say_more(queue, ("hosts",), {"--run": run_id, "--wide": wide, "--json": as_json}, found, limit)


@app.command()
def pause(
    host: Host,
    span: Annotated[
        str, typer.Option("--for", help="Length of the pause: 90s, 10m, 2h.", metavar="TIME")
    ] = "10m",
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Pause a host: no run sends it requests for this long."""
    length = read_positive_duration("--for", span)
    unknown = with_existing_queue(
        queue, lambda opened: _change(opened, host.lower(), opened.pause_host, length)
    )
    if as_json:
        put_json({"host": host.lower(), "paused_seconds": length.total_seconds()})
        return
    again = command_on(queue, f"hosts resume {host}")
    say(f"Paused {host} for {duration(length.total_seconds())}. To resume it, run: {again}")
    _say_unknown(unknown, queue)


@app.command()
def slow(
    host: Host,
    gap: Annotated[str, typer.Option("--gap", help="Minimum time between two requests: 2s.", metavar="TIME")],
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Slow a host down: set the minimum interval between requests to it, in all runs."""
    length = read_positive_duration("--gap", gap)
    unknown = with_existing_queue(
        queue, lambda opened: _change(opened, host.lower(), opened.slow_host, length)
    )
    if as_json:
        put_json({"host": host.lower(), "delay_seconds": length.total_seconds()})
        return
    say(f"Slowed {host}. To undo, run: {command_on(queue, f'hosts resume {host}')}")
    _say_unknown(unknown, queue)


@app.command()
def resume(host: Host, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """End the pause and the slowdown of a host."""
    unknown = with_existing_queue(queue, lambda opened: _resume(opened, host.lower()))
    if as_json:
        put_json({"host": host.lower(), "paused_seconds": 0.0, "delay_seconds": 0.0})
    else:
        say(f"Resumed {host}; the rate limits of its runs apply again.")
        _say_unknown(unknown, queue)


def _nothing(run_id: str | None, after: str | None) -> str:
    if after:
        return f"No host comes after {after}."
    return "This run has no hosts yet." if run_id else "No requests have been sent to any host yet."


def _say_unknown(text: str, queue: str) -> None:
    if text:
        say(f"{text} List the hosts with: {command_on(queue, 'hosts')}")


async def _change(
    queue: "Queue", host: str, change: "Callable[[str, timedelta], Awaitable[None]]", length: timedelta
) -> str:
    """Change a host, and return what to say if nobody knows it: it may be meant for later, or misspelt."""
    unknown = await describe_unknown_host(queue, host)
    await change(host, length)
    return unknown


async def _resume(queue: "Queue", host: str) -> str:
    unknown = await _change(queue, host, queue.pause_host, timedelta(0))
    await queue.slow_host(host, timedelta(0))
    return unknown


async def _hosts(queue: "Queue", run_id: str | None, limit: int, after: str | None) -> "list[HostStatus]":
    chosen = await id_of(queue, run_id)
    return [host async for host in first(queue.hosts(chosen, after=after), limit)]

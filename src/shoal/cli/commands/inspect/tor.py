"""`shoal tor`: the Tor processes of a run, and new circuits for all of them."""

from typing import Annotated

import typer

from shoal.cli.console import put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.fetch.tor.sync import TorState, order_renewal, read_states
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.rows import TableColumns
from shoal.queue.contract import Queue

COLUMNS = TableColumns(("worker", "state", "says", "renewed", "restarts"), drops=("restarts", "renewed"))


def tor(
    run_id: common.RunId,
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
    _, states = with_run(queue, run_id, lambda opened, run: _look(opened, run, renew))
    rows = [
        {
            "worker": worker,
            "state": "up" if state.is_up else "down",
            "says": state.says,
            "renewed": state.renewed,
            "restarts": state.restarts,
        }
        for worker, state in states.items()
    ]
    put_rows(
        rows,
        COLUMNS,
        as_json=as_json,
        nothing=f"No worker is using Tor. To use it, run: {command_on(queue, 'run … --tor on')}",
        wide=wide,
    )
    if renew and not as_json:
        say("Workers build new circuits within five seconds.")


async def _look(queue: "Queue", run_id: str, renew: bool) -> "dict[str, TorState]":
    if renew:
        await order_renewal(queue, run_id)
    return await read_states(queue, run_id)

"""`shoal tor`: how the Tors of a run are doing, and new circuits for all of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import put_rows, say

if TYPE_CHECKING:
    from shoal.fetch.tor.board import TorState
    from shoal.queue.contract import Queue


def tor(
    run_id: options.RunId,
    renew: Annotated[
        bool, typer.Option("--renew", help="Have all its workers take new circuits, and thereby exits.")
    ] = False,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show the Tor of each worker of a run: whether it is up, and how often circuits were renewed.

    Example: shoal tor 20260215_120000_ab12 --renew
    """
    states = ask_existing(queue, lambda opened: _look(opened, run_id, renew))
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
    columns = ("worker", "state", "says", "renewed", "restarts")
    put_rows(rows, columns, as_json=as_json, nothing="No worker goes by Tor now: shoal run … --tor on")
    if renew and not as_json:
        say("New circuits are taken within five seconds.")


async def _look(queue: "Queue", run_id: str, renew: bool) -> "dict[str, TorState]":
    from shoal.fetch.tor.board import order_renewal, read_states

    await queue.run(run_id)  # which raises UnknownRun
    if renew:
        await order_renewal(queue, run_id)
    return await read_states(queue, run_id)

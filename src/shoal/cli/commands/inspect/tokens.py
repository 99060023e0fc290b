"""`shoal tokens`: the remaining quota of API tokens, and which are resting or retired."""

from typing import Annotated

import typer

from shoal.cli.console import counted, put_rows, say
from shoal.cli.open_queue import id_of, with_existing_queue
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status import tokens as fleet
from shoal.fleet.status.rows import TokenRow
from shoal.queue.contract import Queue


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
        say(
            f"Cleared {counted(with_existing_queue(queue, lambda opened: _forget(opened, forget)), 'token')}."
        )
        return
    found = with_existing_queue(queue, lambda opened: _found(opened, run_id))
    some = command_on(queue, "run … --tokens 'env:API_TOKENS hosts=api.example.com'")
    nothing = f"No token has been used. Pass some: {some}"
    put_rows(found, TokenRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    if not as_json and any(one.why for one in found):
        again = command_on(queue, "tokens --forget retired")
        say(f"Retired tokens were rejected by the API. If you have fixed them, try again:  {again}")


async def _found(queue: "Queue", run_id: str | None) -> list[TokenRow]:
    return [one.row() for one in await fleet.tokens(queue, await id_of(queue, run_id))]


async def _forget(queue: "Queue", names: str) -> int:
    return await fleet.forget(queue, names)

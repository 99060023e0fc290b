"""`shoal tokens`: what is left of API tokens, which of them rest, and which were retired and why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, duration, put_rows, say
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from shoal.fleet.tokens import TokenStatus
    from shoal.queue.contract import Queue

COLUMNS = ("token", "state", "left", "limit", "resets_in", "reserved", "why")


def tokens(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Of this run only; all of them if left out.")
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget",
            help="Forget what is known of these, so that they are tried anew.",
            metavar="NAME|retired|all",
        ),
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show API tokens by name: what is left of each, when it is whole again, and which were retired.

    Example: shoal tokens --forget retired
    """
    if forget:
        say(f"Forgot {counted(ask_existing(queue, lambda opened: _forget(opened, forget)), 'token')}.")
        return
    found = ask_existing(queue, lambda opened: _found(opened, run_id))
    rows = [one.as_json() if as_json else row(one) for one in found]
    nothing = "No token has been used. Name some: shoal run … --tokens 'env:API_TOKENS hosts=api.example.com'"
    put_rows(rows, COLUMNS, as_json=as_json, nothing=nothing)
    if not as_json and any(one.state == "retired" for one in found):
        again = typed_on(queue, "tokens --forget retired")
        say(f"Retired ones were refused. If that is mended, try them anew:  {again}")


def row(status: "TokenStatus") -> dict[str, Any]:
    """Return a token as a line of a table."""
    shown = status.as_json()
    return shown | {"resets_in": duration(shown["resets_in_seconds"])}


async def _found(queue: "Queue", run_id: str | None) -> "list[TokenStatus]":
    from shoal.fleet import tokens as fleet

    return await fleet.tokens(queue, run_id)


async def _forget(queue: "Queue", names: str) -> int:
    from shoal.fleet import tokens as fleet

    return await fleet.forget(queue, names)

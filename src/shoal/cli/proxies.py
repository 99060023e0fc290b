"""`shoal proxies`: how the proxies of a run are doing."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, duration, put_rows, say

if TYPE_CHECKING:
    from shoal.fleet.proxies import ProxyStatus
    from shoal.queue.contract import Queue

COLUMNS = (
    *("proxy", "state", "pages", "dead", "refused", "slow", "blocked", "seconds", "last_fault", "back_in"),
    "blocked_by",
)
MOST_NAMED = 3


def proxies(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; the newest one if left out.")
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show the proxies of a run: what came by each, what went wrong, and which are benched and for how long.

    Example: shoal proxies 20260215_120000_ab12
    """
    listed = ask_existing(queue, lambda opened: _found(opened, run_id))
    rows = [one.as_json() if as_json else row(one) for one in listed]
    put_rows(
        rows,
        COLUMNS,
        as_json=as_json,
        nothing="No proxy has been used. Name some: shoal run … --proxies FILE",
    )
    benched = sum(one.state == "benched" for one in listed)
    if benched and not as_json:
        left = "No proxy is left, and tasks wait." if benched == len(listed) else ""
        say(f"{counted(benched, 'proxy').replace('proxys', 'proxies')} benched. {left}".strip())


def row(status: "ProxyStatus") -> dict[str, Any]:
    """Return a proxy as a line of a table."""
    hosts = sorted(status.blocked_by)
    more = ", …" if len(hosts) > MOST_NAMED else ""
    return status.as_json() | {
        "seconds": f"{status.seconds:.2f}" if status.seconds is not None else None,
        "back_in": duration(status.back_in) if status.back_in is not None else None,
        "blocked_by": ", ".join(hosts[:MOST_NAMED]) + more or None,
    }


async def _found(queue: "Queue", run_id: str | None) -> "list[ProxyStatus]":
    from shoal.core.errors import InvalidSetting
    from shoal.fleet.proxies import proxies as found

    if run_id is None:
        newest = next(iter(await queue.runs()), None)
        if newest is None:
            raise InvalidSetting("RUN", "cannot be guessed: this queue has no runs")
        run_id = newest.id
    return await found(queue, run_id)

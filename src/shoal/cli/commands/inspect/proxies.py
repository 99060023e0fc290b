"""`shoal proxies`: requests, failures and bans of the proxies of a run."""

from typing import Any

from shoal.cli.console import counted, duration, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.proxies import ProxyStatus
from shoal.fleet.status.proxies import proxies as found
from shoal.queue.contract import Queue

COLUMNS = (
    *("proxy", "state", "pages", "dead", "refused", "slow", "blocked", "seconds", "last_fault", "back_in"),
    "blocked_by",
)
MAX_HOSTS_SHOWN = 3


def proxies(
    run_id: common.MaybeRunId = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show each proxy of a run: pages fetched, failures by kind, and how long it is benched.

    Example: shoal proxies newest
    """
    _, listed = with_run(queue, run_id, _found)
    rows = [one.as_json() if as_json else row(one) for one in listed]
    put_rows(
        rows,
        COLUMNS,
        as_json=as_json,
        nothing=f"No proxy has been used. To use proxies, run: {command_on(queue, 'run … --proxies FILE')}",
        drops=("seconds", "slow", "refused", "dead", "last_fault", "blocked", "blocked_by"),
        folds=("proxy", "blocked_by", "last_fault"),
        wide=wide,
    )
    benched = sum(one.benched is not None for one in listed)
    if benched and not as_json:
        left = "No proxy is available; tasks are waiting." if benched == len(listed) else ""
        say(f"{counted(benched, 'proxy').replace('proxys', 'proxies')} benched. {left}".strip())


def row(status: "ProxyStatus") -> dict[str, Any]:
    """Return a proxy as a table row."""
    hosts = sorted(status.blocked_by)
    more = ", …" if len(hosts) > MAX_HOSTS_SHOWN else ""
    return status.as_json() | {
        "seconds": f"{status.seconds:.2f}" if status.seconds is not None else None,
        "back_in": duration(status.back_in) if status.back_in is not None else None,
        "blocked_by": ", ".join(hosts[:MAX_HOSTS_SHOWN]) + more or None,
    }


async def _found(queue: "Queue", run_id: str) -> "list[ProxyStatus]":
    return await found(queue, run_id)

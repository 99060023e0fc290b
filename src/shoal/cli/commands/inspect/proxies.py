"""`shoal proxies`: requests, failures and bans of the proxies of a run."""

from shoal.cli.console import counted, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.proxies import proxies as found
from shoal.fleet.status.rows import ProxyRow
from shoal.queue.contract import Queue


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


async def _found(queue: "Queue", run_id: str) -> list[ProxyRow]:
    return [one.row() for one in await found(queue, run_id)]

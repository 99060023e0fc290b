"""A process that claims tasks and completes them until its runs are drained, and reports how many."""

import asyncio
from typing import Any

from shoal.core.model import Done, Fate, Lease, Task
from shoal.queue.postgres.queue import PostgresQueue
from tests.integration.postgres.crew import Orders, Stage, main
from tests.integration.postgres.web import links, page_url

LIMIT = 20
LONGEST_NAP = 0.05


async def work(orders: Orders, stage: Stage) -> dict[str, int]:
    count = {"accepted": 0, "stale": 0}
    async with await PostgresQueue.open(orders["url"]) as queue:
        await stage.ready()
        runs = list(orders["runs"])
        while runs:
            for run_id in list(runs):
                if await _turn(queue, orders, run_id, count) and stage.finishing:
                    runs.remove(run_id)
    return count


async def _turn(queue: PostgresQueue, orders: Orders, run_id: str, count: dict[str, int]) -> bool:
    """Claim and settle once; True when the run is drained."""
    grant = await queue.claim(orders["name"], run_id=run_id, limit=LIMIT)
    if not grant.leases:
        due = LONGEST_NAP if grant.next_due is None else grant.next_due.total_seconds()
        await asyncio.sleep(min(due, LONGEST_NAP))
        return grant.drained
    outcomes = [_done(lease, orders.get("pages")) for lease in grant.leases]
    for fate in await queue.settle(outcomes):
        count["accepted" if fate is Fate.ACCEPTED else "stale"] += 1
    return False


def _done(lease: Lease, pages: int | None) -> Done:
    found: list[Any] = links(lease.task.url, pages) if pages else []
    return Done(lease, items=[lease.task.url], follow=[Task(url=page_url(page)) for page in found])


if __name__ == "__main__":
    main(work)

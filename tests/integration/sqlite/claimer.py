"""A process that claims and completes tasks up to a given number, and prints how many."""

import asyncio
from datetime import UTC, datetime, timedelta

from shoal.core.model import Done, Fate
from shoal.queue.sqlite.queue import SqliteQueue
from tests.integration.programs import Orders, Stage, main

LONGEST_NAP = 0.02


async def work(orders: Orders, stage: Stage) -> dict[str, int]:
    """Work until the run has completed the requested number of tasks."""
    ahead = timedelta(seconds=orders.get("ahead", 0))
    count = {"accepted": 0, "stale": 0}
    async with await SqliteQueue.open(orders["path"], now=lambda: datetime.now(UTC) + ahead) as queue:
        await stage.ready()
        while (await queue.stats(orders["run"])).completed < orders["tasks"]:
            await queue.reclaim()
            await turn(queue, orders, stage, count)
    return count


async def turn(queue: SqliteQueue, orders: Orders, stage: Stage, count: dict[str, int]) -> None:
    """Claim and settle once."""
    grant = await queue.claim(orders["name"], run_id=orders["run"], limit=orders.get("limit", 20))
    if not grant.leases:
        await asyncio.sleep(LONGEST_NAP)
    if orders.get("talks"):
        stage.say(len(grant.leases))
    outcomes = [Done(lease, items=[lease.task.url]) for lease in grant.leases]
    for fate in await queue.settle(outcomes):
        count["accepted" if fate is Fate.ACCEPTED else "stale"] += 1


if __name__ == "__main__":
    main(work)

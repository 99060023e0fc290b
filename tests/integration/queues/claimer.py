"""A process that claims tasks and completes them until its runs are drained, and reports how many.

Every task yields its URL as an item. With a referee, a folder, every host is marked there by a file while its
task is held; a file that is there already is a host that is held twice.
"""

import asyncio
from collections import Counter
from pathlib import Path

from shoal.core.model import Done, Fate, Grant, Lease, Task
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.integration.programs import Orders, Stage, main
from tests.integration.queues.web import links, page_url

LIMIT = 20
LONGEST_NAP = 0.05


async def work(orders: Orders, stage: Stage) -> dict[str, int]:
    count = Counter({"accepted": 0, "stale": 0, "twice": 0})
    async with open_queue(orders["url"]) as queue:
        await stage.ready()
        runs = list(orders["runs"])
        while runs:
            for run_id in list(runs):
                if await _turn(queue, orders, run_id, count) and stage.finishing:
                    runs.remove(run_id)
    return dict(count)


async def _turn(queue: Queue, orders: Orders, run_id: str, count: Counter[str]) -> bool:
    """Claim and settle once; True when the run is drained."""
    grant = await queue.claim(orders["name"], run_id=run_id, limit=orders.get("limit", LIMIT))
    if not grant.leases:
        await _rest(queue, grant)
        return grant.drained
    if "referee" in orders:
        count["twice"] += _held_twice(Path(orders["referee"]), grant.leases)
    outcomes = [_done(lease, orders.get("pages")) for lease in grant.leases]
    for fate in await queue.settle(outcomes):
        count["accepted" if fate is Fate.ACCEPTED else "stale"] += 1
    return False


async def _rest(queue: Queue, grant: Grant) -> None:
    due = LONGEST_NAP if grant.next_due is None else grant.next_due.total_seconds()
    await asyncio.sleep(min(due, LONGEST_NAP))
    await queue.reclaim()


def _held_twice(referee: Path, leases: list[Lease]) -> int:
    """Mark the hosts for a moment, and return how many were marked already."""
    marks = [referee / (lease.task.url or "").split("/")[2] for lease in leases]
    mine, twice = [], 0
    for mark in marks:
        try:
            mark.touch(exist_ok=False)
            mine.append(mark)
        except FileExistsError:
            twice += 1
    for mark in mine:
        mark.unlink()
    return twice


def _done(lease: Lease, pages: int | None) -> Done:
    found = links(lease.task.url or "", pages) if pages else []
    follow = [Task(url=page_url(page), priority=page % 2) for page in found]
    return Done(lease, items=[lease.task.url], follow=follow)


if __name__ == "__main__":
    main(work)

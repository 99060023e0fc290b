"""A process that claims tasks and completes them until the run is drained, and reports how many.

Every task yields its URL as an item, and is noted in a set of live hosts of the test's own meanwhile.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from redis.asyncio import Redis

from shoal.core.model import Done, Fate, Lease, Task
from shoal.queue.open import open_queue

LIMIT = 20
LONGEST_NAP = 0.05


async def work(orders: dict[str, Any]) -> dict[str, int]:
    count: Counter[str] = Counter()
    referee = Redis.from_url(orders["referee"]) if "referee" in orders else None
    async with open_queue(orders["url"]) as queue:
        while True:
            grant = await queue.claim(orders["name"], run_id=orders["run"], limit=orders.get("limit", LIMIT))
            if grant.drained:
                break
            if not grant.leases:
                due = LONGEST_NAP if grant.next_due is None else grant.next_due.total_seconds()
                await asyncio.sleep(min(due, LONGEST_NAP))
                await queue.reclaim()
                continue
            hosts = [lease.task.url.split("/")[2] for lease in grant.leases if lease.task.url]
            if referee:
                count["twice"] += sum([not await referee.setnx(f"held:{host}", 1) for host in hosts])
                await referee.delete(*(f"held:{host}" for host in hosts))
            for fate in await queue.settle([_done(lease, orders.get("pages", 0)) for lease in grant.leases]):
                count["accepted" if fate is Fate.ACCEPTED else "stale"] += 1
    if referee:
        await referee.aclose()
    return dict(count)


def _done(lease: Lease, pages: int) -> Done:
    """Complete a page; it links to two others of a web of numbered pages."""
    number = int((lease.task.url or "/0").rpartition("/")[2])
    links = [(number * 2 + n) % pages for n in (1, 2)] if pages else []
    follow = [Task(url=f"https://h{link % 40}.example/{link}", priority=link % 2) for link in links]
    return Done(lease, items=[lease.task.url], follow=follow)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(json.loads(sys.argv[1])))))

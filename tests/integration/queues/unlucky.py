"""A process that drops some of its leases and fails with others, and reports which tasks it completed."""

import asyncio
import random
from datetime import timedelta

from shoal.core.model import Done, Fate, Lease, Outcome, Release, Retry
from shoal.queue.open import open_queue
from tests.integration.programs import Orders, Stage, main

LIMIT = 20
LEASE = timedelta(milliseconds=200)
PAUSE = timedelta(milliseconds=20)
NAP = 0.01


async def work(orders: Orders, stage: Stage) -> list[str]:
    completed: list[str] = []
    luck = random.Random(orders["name"])
    async with open_queue(orders["url"]) as queue:
        await stage.ready()
        grant = await queue.claim(orders["name"], run_id=orders["run"], limit=LIMIT, lease=LEASE)
        while not grant.drained:
            outcomes = [outcome for lease in grant.leases if (outcome := _outcome(lease, luck))]
            fates = await queue.settle(outcomes)
            completed += [
                outcome.lease.task_id
                for outcome, fate in zip(outcomes, fates, strict=True)
                if isinstance(outcome, Done) and fate is Fate.ACCEPTED
            ]
            if luck.random() < 0.2:
                await queue.reclaim()
            if not grant.leases:
                await asyncio.sleep(NAP)
            grant = await queue.claim(orders["name"], run_id=orders["run"], limit=LIMIT, lease=LEASE)
    return completed


def _outcome(lease: Lease, luck: random.Random) -> Outcome | None:
    """Return what becomes of a task; None for a lease that is dropped and must be taken back."""
    match luck.randrange(10):
        case 0:
            return None
        case 1:
            return Retry(lease, "later", after=PAUSE)
        case 2:
            return Retry(lease, "at once")
        case 3:
            return Release(lease)
        case _:
            return Done(lease, items=[lease.task.url])


if __name__ == "__main__":
    main(work)

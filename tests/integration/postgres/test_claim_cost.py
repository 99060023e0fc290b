"""A claim of 100 tasks reads as many pages in a huge or bloated store as in a small and fresh one."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, Done, RunSettings, Task
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.postgres.claim import CLAIM
from shoal.queue.postgres.queue import PostgresQueue

# It counts pages, not seconds: other tests may run beside it.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SMALL, BIG, PAGES_PER_HOST = 2_500, 125_000, 5
CLAIMED = 100
MAX_RATIO = 2.0  # times the pages that a small store costs
TEMPLATE = "crawl_template"
RUN = "crawl"
BEGINNING = "2000-01-01"

Floors = Mapping[str, str]


@dataclass(frozen=True)
class Meter:
    """Counts the pages that a claim reads, on a connection that has claimed before."""

    connection: Any

    async def pages(self, floors: Floors) -> int:
        """Claim, count the pages, and roll back."""
        rows = await self._rolled_back(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {CLAIM}", floors)
        return pages_of(rows, CLAIMED + 1)

    async def look(self, floor: str) -> int:
        """Count the pages for finding due host queues, the first step of a claim."""
        await self.connection.execute("SET enable_seqscan = off")
        return pages_of(await self.connection.fetch(LOOK, floor), CLAIMED)

    async def warm_up(self) -> None:
        """Let the connection cache the functions and their plans."""
        await self._rolled_back(CLAIM, {})

    async def _rolled_back(self, query: str, floors: Floors) -> list[Any]:
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            return await self.connection.fetch(
                *(query, uuid4(), False, RUN, "meter", CLAIMED, MINUTE, BURST_HORIZON, None, None),
                *(list(floors), list(floors.values()), None, None, None, ZERO),
            )
        finally:
            await transaction.rollback()


def pages_of(rows: list[Any], found: int) -> int:
    """Return the pages that an explained query has read; it must have found this many rows."""
    (answer,) = json.loads(rows[0][0])
    assert answer["Plan"]["Actual Rows"] == found, "too few tasks were due"
    return answer["Plan"]["Shared Hit Blocks"] + answer["Plan"]["Shared Read Blocks"]


def floors_of(queue: PostgresQueue) -> Floors:
    """Return the floors that the queue caches from its last claim and passes to the next."""
    return queue._floors[RUN, None, None].known


async def meter_at(url: str) -> Meter:
    meter = Meter(await asyncpg.connect(url))
    await meter.warm_up()
    return meter


async def fill(queue: PostgresQueue, tasks: range, hosts: int) -> None:
    await queue.enqueue(RUN, (Task(url=f"https://h{n % hosts}.example/{n}") for n in tasks))


async def claim_and_settle(queue: PostgresQueue, limit: int) -> int:
    grant = await queue.claim("worker-1", run_id=RUN, limit=limit)
    await queue.settle([Done(lease) for lease in grant.leases])
    return len(grant.leases)


async def load(url: str) -> int:
    """Fill a database with the big crawl; return the cost of a claim while it was small."""
    async with await PostgresQueue.open(url) as queue:
        await queue.start_run("books", run_id=RUN, settings=RunSettings(host_delay=SECOND))
        await fill(queue, range(SMALL), SMALL // PAGES_PER_HOST)
        meter = await meter_at(url)
        await claim_and_settle(queue, CLAIMED)
        small = await meter.pages(floors_of(queue))
        await meter.connection.close()
        await fill(queue, range(SMALL, BIG), BIG // PAGES_PER_HOST)
    return small


@pytest.fixture(scope="module")
def small_cost(postgres, postgres_template):
    """The cost of a claim in a small store. The store is big by now, and is cloned for each test."""
    postgres.clone(postgres_template, TEMPLATE)
    yield asyncio.run(load(postgres.url(TEMPLATE)))
    postgres.sql(f"DROP DATABASE {TEMPLATE} WITH (FORCE)")


@pytest.fixture
def big_url(postgres, small_cost):
    name = "crawl"
    postgres.clone(TEMPLATE, name)
    yield postgres.url(name)
    postgres.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def crawl(big_url):
    """The queue with the big crawl."""
    async with await PostgresQueue.open(big_url) as queue:
        yield queue


@pytest.fixture
async def meter(big_url):
    meter = await meter_at(big_url)
    yield meter
    await meter.connection.close()


async def test_fifty_times_the_tasks_cost_the_same(crawl, meter, small_cost):
    await claim_and_settle(crawl, CLAIMED)
    cost = await meter.pages(floors_of(crawl))
    print(f"{small_cost} pages with {SMALL:,} tasks, {cost} with {BIG:,}")
    assert cost < MAX_RATIO * small_cost


async def test_blocked_hosts_are_met_once_and_cost_nothing_afterwards(crawl, meter, small_cost):
    await meter.connection.execute(BLOCK_99_OF_100)
    claims = 0
    while await meter.connection.fetchval(BLOCKED_AND_DUE):
        await claim_and_settle(crawl, CLAIMED)
        claims += 1
    while await meter.connection.fetchval(FREE_AND_DUE) < 2 * CLAIMED:
        await asyncio.sleep(0.05)
    cost = await meter.pages(floors_of(crawl))
    print(f"{small_cost} pages with free hosts, {cost} with 99 % blocked, all met within {claims} claims")
    assert cost < MAX_RATIO * small_cost


async def test_dead_rows_that_an_old_transaction_keeps_are_passed_over(crawl, meter, big_url, small_cost):
    old = await asyncpg.connect(big_url)
    async with old.transaction(isolation="repeatable_read"):
        await old.fetchval("SELECT count(*) FROM shoal.run")
        settled = 0
        while settled < BIG * 2 // 5:
            settled += sum(await asyncio.gather(*(claim_and_settle(crawl, 1000) for _ in range(2))))
        floors = floors_of(crawl)
        looks = [await meter.look(floor) for floor in (max(floors.values()), BEGINNING)]
        cost = await meter.pages(floors)
    await old.close()
    print(f"{small_cost} pages in a fresh store, {cost} after {settled:,} tasks in an old transaction")
    print(f"{looks[0]} pages to find due host_queues behind the floor, {looks[1]} from the beginning")
    assert cost < MAX_RATIO * small_cost
    assert looks[1] > 3 * looks[0], "nothing was in the way, so nothing was tested"


LOOK = f"""
    EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
    SELECT host FROM shoal.host_queue
    WHERE step_group = 1 AND band = 0 AND idle IS NULL
      AND due_at > $1::text::timestamptz AND due_at <= clock_timestamp()
    ORDER BY due_at LIMIT {CLAIMED}
"""
BLOCK_99_OF_100 = """
    UPDATE shoal.host SET paused_until = clock_timestamp() + interval '1 day' WHERE id % 100 <> 0
"""
BLOCKED_AND_DUE = """
    SELECT EXISTS (
        SELECT FROM shoal.host_queue l JOIN shoal.host h ON h.id = l.host
        WHERE l.due_at <= clock_timestamp() AND h.paused_until > clock_timestamp()
    )
"""
FREE_AND_DUE = """
    SELECT count(*) FROM shoal.host_queue l JOIN shoal.host h ON h.id = l.host
    WHERE l.due_at <= clock_timestamp() AND h.paused_until < clock_timestamp()
"""

"""Many processes at once, with the database itself as the referee; tests for all servers are in `queues`."""

from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from shoal.core.model import ZERO, RunSettings, Task
from tests.integration.programs import reports_of, run_programs
from tests.integration.queues.checks import assert_each_done_once
from tests.integration.queues.web import page_url, reachable

CLAIMER, PRODUCER = "tests.integration.queues.claimer", "tests.integration.queues.producer"
ONE_AT_A_TIME = RunSettings(host_delay=ZERO, per_host=1)

# A constraint as referee: the store itself rejects a second live lease of a host, and that claim fails.
REFEREE = "CREATE UNIQUE INDEX one_lease_per_host ON shoal.lease (host)"


@pytest.fixture(autouse=True)
async def nobody_waits_in_a_circle(direct):
    """Locks are taken in one order everywhere, so that the server never has to break a deadlock."""
    yield
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await direct.fetchval(query) == 0


@pytest.mark.long
async def test_producers_and_claimers_at_once_drain_the_whole_web_and_no_host_queue_is_forgotten(
    queue, direct, postgres_url
):
    await direct.execute(REFEREE)
    run = await queue.start_run("books", settings=ONE_AT_A_TIME)
    seeds, pages = range(1000), 2400
    claims = [
        {"url": postgres_url, "name": f"claimer-{n}", "runs": [run.id], "pages": pages} for n in range(4)
    ]
    puts = [
        {"url": postgres_url, "name": f"producer-{n}", "run": run.id, "pages": [n * 200, n * 200 + 400]}
        for n in range(4)
    ]
    async with AsyncExitStack() as stack:
        claimers = await stack.enter_async_context(run_programs(CLAIMER, claims))
        producers = await stack.enter_async_context(run_programs(PRODUCER, puts))
        await producers.reports()
        reports = await claimers.reports()
    found = len(reachable(seeds, pages))
    assert sum(report["accepted"] for report in reports) == found
    await assert_each_done_once(queue, run, found)


@pytest.mark.long
async def test_workers_that_drop_their_leases_and_fail_still_complete_every_task_once(
    queue, direct, postgres_url
):
    await direct.execute(REFEREE)
    run = await queue.start_run("books", settings=replace(ONE_AT_A_TIME, max_attempts=1000))
    await queue.enqueue(
        run.id, [Task(url=page_url(page, hosts=100), priority=page % 3) for page in range(600)]
    )
    orders = [{"url": postgres_url, "name": f"unlucky-{n}", "run": run.id} for n in range(4)]
    reports = await reports_of("tests.integration.queues.unlucky", orders)
    completed = [task for tasks in reports for task in tasks]
    assert len(completed) == len(set(completed)) == 600
    await assert_each_done_once(queue, run, 600)

"""Many processes at once: no host is held twice, no task is lost or done twice, no key enters twice."""

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from shoal.core.model import ZERO, RunSettings, Task
from tests.integration.postgres.crew import crew
from tests.integration.postgres.rival import SCHEMA
from tests.integration.postgres.web import HOSTS, page_url, reachable

ONE_AT_A_TIME = RunSettings(host_delay=ZERO, per_host=1)

# The referee: the store itself refuses a second live lease of a host, and the claim that wanted it fails.
REFEREE = "CREATE UNIQUE INDEX one_lease_per_host ON shoal.lease (host)"


@pytest.fixture(autouse=True)
async def nobody_waits_in_a_circle(direct):
    """Locks are taken in one order everywhere, so that the server never has to break a deadlock."""
    yield
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await direct.fetchval(query) == 0


async def assert_each_done_once(queue, run, tasks):
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed, stats.remaining, stats.items) == (tasks, tasks, 0, tasks)
    items = [item async for item in queue.items(run.id)]
    assert len({item.task_id for item in items}) == len(items) == tasks


@pytest.mark.alone
async def test_eight_claimers_never_hold_a_host_twice_and_complete_every_task_once(
    queue, direct, postgres_url
):
    await direct.execute(REFEREE)
    runs = [await queue.start_run("books", settings=ONE_AT_A_TIME) for _ in range(2)]
    for run in runs:
        await queue.enqueue(run.id, [Task(url=page_url(page)) for page in range(HOSTS * 5)])
    orders = [
        {"url": postgres_url, "name": f"claimer-{n}", "runs": [run.id for run in runs[:: 1 - n % 2 * 2]]}
        for n in range(8)
    ]
    async with crew("claimer", orders) as claimers:
        reports = await claimers.reports()
    assert sum(report["accepted"] for report in reports) == HOSTS * 10
    assert not any(report["stale"] for report in reports)
    for run in runs:
        await assert_each_done_once(queue, run, HOSTS * 5)


@pytest.mark.alone
async def test_the_same_referee_convicts_a_claim_that_locks_and_counts_in_one_statement(direct, postgres_url):
    await direct.execute(SCHEMA)
    await direct.execute("INSERT INTO rival.host SELECT generate_series(1, $1::int)", HOSTS)
    async with crew("rival", [{"url": postgres_url, "name": f"rival-{n}"} for n in range(4)]) as rivals:
        reports = await rivals.reports()
    assert sum(report["violations"] for report in reports) > 0, reports


@pytest.mark.alone
async def test_sixteen_producers_with_keys_in_common_store_each_key_once(queue, direct, postgres_url):
    run = await queue.start_run("books")
    orders = [
        {"url": postgres_url, "name": f"producer-{n}", "run": run.id, "pages": [n * 500, n * 500 + 1000]}
        for n in range(16)
    ]
    keys = 15 * 500 + 1000
    async with crew("producer", orders) as producers:
        reports = await producers.reports()
    assert sum(report["added"] for report in reports) == keys
    assert sum(report["duplicate"] for report in reports) == 16 * 1000 - keys
    assert (await queue.stats(run.id)).pending == keys
    assert await direct.fetchval("SELECT count(*) FROM shoal.task") == keys
    stored = await direct.fetch("SELECT unnest(tasks) AS task FROM shoal.bundle")
    assert len({row["task"] for row in stored}) == len(stored) == keys


@pytest.mark.alone
async def test_producers_and_claimers_at_once_drain_the_whole_web_and_no_lane_is_forgotten(
    queue, direct, postgres_url
):
    await direct.execute(REFEREE)
    run = await queue.start_run("books", settings=ONE_AT_A_TIME)
    seeds, pages = range(1000), 6000
    claims = [
        {"url": postgres_url, "name": f"claimer-{n}", "runs": [run.id], "pages": pages} for n in range(4)
    ]
    puts = [
        {"url": postgres_url, "name": f"producer-{n}", "run": run.id, "pages": [n * 200, n * 200 + 400]}
        for n in range(4)
    ]
    async with AsyncExitStack() as stack:
        claimers = await stack.enter_async_context(crew("claimer", claims))
        producers = await stack.enter_async_context(crew("producer", puts))
        await producers.reports()
        reports = await claimers.reports()
    found = len(reachable(seeds, pages))
    assert sum(report["accepted"] for report in reports) == found
    await assert_each_done_once(queue, run, found)


@pytest.mark.alone
async def test_workers_that_drop_their_leases_and_fail_still_complete_every_task_once(
    queue, direct, postgres_url
):
    await direct.execute(REFEREE)
    run = await queue.start_run("books", settings=replace(ONE_AT_A_TIME, max_attempts=1000))
    await queue.enqueue(
        run.id, [Task(url=page_url(page, hosts=100), priority=page % 3) for page in range(1500)]
    )
    orders = [{"url": postgres_url, "name": f"unlucky-{n}", "run": run.id} for n in range(6)]
    async with crew("unlucky", orders) as workers:
        completed = [task for tasks in await workers.reports() for task in tasks]
    assert len(completed) == len(set(completed)) == 1500
    await assert_each_done_once(queue, run, 1500)

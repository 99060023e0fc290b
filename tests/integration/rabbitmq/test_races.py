"""Many processes at once: no host is held twice, no task is lost or done twice, no key enters twice."""

import pytest

from shoal.core.model import ZERO, RunSettings, Task
from tests.integration.rabbitmq.crew import reports_of

HOSTS = 400
ONE_AT_A_TIME = RunSettings(host_delay=ZERO, per_host=1)


async def assert_each_done_once(queue, run, tasks):
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed, stats.remaining, stats.items) == (tasks, tasks, 0, tasks)
    items = [item.task_id async for item in queue.items(run.id)]
    assert len(set(items)) == len(items) == tasks


@pytest.mark.alone
async def test_eight_claimers_never_hold_a_host_twice_and_complete_every_task_once(
    queue, redis, rabbitmq_url, depths
):
    run = await queue.start_run("books", settings=ONE_AT_A_TIME)
    tasks = [Task(url=f"https://h{page % HOSTS}.example/{page}") for page in range(HOSTS * 5)]
    await queue.enqueue(run.id, tasks)
    orders = [
        {"url": rabbitmq_url, "referee": redis.url(1), "name": f"claimer-{n}", "run": run.id}
        for n in range(8)
    ]
    reports = await reports_of("claimer", orders)
    assert sum(report.get("accepted", 0) for report in reports) == len(tasks)
    assert not any(report.get("twice", 0) or report.get("stale", 0) for report in reports)
    await assert_each_done_once(queue, run, len(tasks))
    assert await depths.of(run, "p0") == 0


@pytest.mark.alone
async def test_sixteen_producers_with_keys_in_common_store_each_key_once(queue, rabbitmq_url):
    run = await queue.start_run("books")
    orders = [
        {"url": rabbitmq_url, "name": f"producer-{n}", "run": run.id, "pages": [n * 500, n * 500 + 1000]}
        for n in range(16)
    ]
    keys = 15 * 500 + 1000
    reports = await reports_of("producer", orders)
    assert sum(report["added"] for report in reports) == keys
    assert sum(report["duplicate"] for report in reports) == 16 * 1000 - keys
    assert (await queue.stats(run.id)).pending == keys

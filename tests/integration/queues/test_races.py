"""Many processes at once: no host is held twice, no task is lost or done twice, no key enters twice."""

from datetime import timedelta

import pytest

from shoal.core.model import ZERO, RunSettings, Task
from tests.integration.programs import reports_of
from tests.integration.queues.checks import assert_each_done_once
from tests.integration.queues.web import HOSTS, page_url

CLAIMER, PRODUCER = "tests.integration.queues.claimer", "tests.integration.queues.producer"


async def claimed_by_many(queue, stand, referee, tasks, claimers, per_host):
    """Let processes drain a run of one page for each host and turn, and return it with their reports."""
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=per_host))
    await queue.enqueue(run.id, [Task(url=page_url(page)) for page in range(tasks)])
    common = {"url": stand.url, "referee": str(referee), "runs": [run.id]}
    orders = [{**common, "name": f"claimer-{n}"} for n in range(claimers)]
    return run, await reports_of(CLAIMER, orders)


@pytest.mark.long
async def test_claimers_never_hold_a_host_twice_and_complete_every_task_once(queue, stand, tmp_path):
    run, reports = await claimed_by_many(queue, stand, tmp_path, HOSTS * 3, claimers=4, per_host=1)
    assert sum(report["accepted"] for report in reports) == HOSTS * 3
    assert not any(report["twice"] or report["stale"] for report in reports)
    await assert_each_done_once(queue, run, HOSTS * 3)


@pytest.mark.long
@pytest.mark.parametrize("stand", ["postgres"], indirect=True)  # Redis makes one call at a time
async def test_producers_with_keys_in_common_store_each_key_once(queue, stand):
    run = await queue.start_run("books")
    orders = [
        {"url": stand.url, "name": f"producer-{n}", "run": run.id, "pages": [n * 500, n * 500 + 1000]}
        for n in range(4)
    ]
    keys = 3 * 500 + 1000
    reports = await reports_of(PRODUCER, orders)
    assert sum(report["added"] for report in reports) == keys
    assert sum(report["duplicate"] for report in reports) == 4 * 1000 - keys
    assert (await queue.stats(run.id)).pending == keys


@pytest.mark.long
@pytest.mark.parametrize("stand", ["postgres"], indirect=True)  # Redis makes one call at a time
async def test_producers_with_runs_of_their_own_and_dedup_queue_each_key_once(queue, stand):
    settings = RunSettings(dedup=timedelta(days=30))
    runs = [await queue.start_run("books", settings=settings) for _ in range(4)]
    orders = [
        {"url": stand.url, "name": f"producer-{n}", "run": run.id, "pages": [n * 200, n * 200 + 1000]}
        for n, run in enumerate(runs)
    ]
    keys = 3 * 200 + 1000
    reports = await reports_of(PRODUCER, orders)
    assert sum(report["added"] for report in reports) == keys
    assert sum(report["known"] for report in reports) == 4 * 1000 - keys
    assert sum([(await queue.stats(run.id)).pending for run in runs]) == keys

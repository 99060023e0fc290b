"""Pages are as fast on a large queue as on a small one."""

import time

import pytest

from shoal.core.model import Bury, Done, Task
from tests.integration.web.conftest import Dashboard, all_paths

TASKS = 100_000
SOME = 1_000
MAX_SECONDS = 0.3
PAGES = (
    "",
    "/items",
    "/rejects",
    "/dead",
    "/tasks",
    "/tasks?state=pending",
    "/tasks?state=completed",
    "/proxies",
)


async def make_large_run(dashboard: Dashboard) -> str:
    """Return the id of a run with many tasks on many hosts, some done and some dead."""
    run = await dashboard.queue.start_run("books")
    tasks = (Task(url=f"https://shop{n % 500}.example/{n}", step=f"step{n % 4}") for n in range(TASKS))
    await dashboard.queue.enqueue(run.id, tasks)
    leases = (await dashboard.queue.claim("me", run_id=run.id, limit=SOME)).leases
    settled = [Done(one, items=[{"n": one.task.url}]) for one in leases[::2]]
    await dashboard.queue.settle([*settled, *(Bury(one, "HttpStatus: 404") for one in leases[1::2])])
    return run.id


@pytest.mark.long  # beside others: what is measured is CPU time
async def test_every_page_is_fast_with_a_hundred_thousand_tasks(dashboard):
    run_id = await make_large_run(dashboard)
    slow: dict[str, float] = {}
    async with dashboard.client() as client:
        for path in all_paths(run_id, PAGES):
            times = [await _time(client, path) for _ in range(5)]
            slow[path] = min(times)
    assert {path: seconds for path, seconds in slow.items() if seconds > MAX_SECONDS} == {}


async def _time(client, path):
    """Return the CPU time of server and client for a page."""
    began = time.process_time()
    response = await client.get(path)
    assert response.status_code == 200, path
    return time.process_time() - began

"""Pages on a large queue answer as on a small one."""

import time

import pytest

from shoal.core.model import Bury, Done, Task
from tests.integration.web.conftest import Place, every_path

TASKS = 100_000
SOME = 1_000
SOON = 0.3  # seconds
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


async def large(place: Place) -> str:
    """Return the id of a run with many tasks on many hosts, some done and some dead."""
    run = await place.queue.start_run("books")
    tasks = (Task(url=f"https://shop{n % 500}.example/{n}", step=f"step{n % 4}") for n in range(TASKS))
    await place.queue.enqueue(run.id, tasks)
    leases = (await place.queue.claim("me", run_id=run.id, limit=SOME)).leases
    settled = [Done(one, items=[{"n": one.task.url}]) for one in leases[::2]]
    await place.queue.settle([*settled, *(Bury(one, "HttpStatus: 404") for one in leases[1::2])])
    return run.id


@pytest.mark.alone
async def test_every_page_of_a_queue_with_a_hundred_thousand_tasks_comes_soon(place):
    run_id = await large(place)
    slow: dict[str, float] = {}
    async with place.client() as client:
        for path in every_path(run_id, PAGES):
            times = [await _time(client, path) for _ in range(5)]
            slow[path] = min(times)
    assert {path: seconds for path, seconds in slow.items() if seconds > SOON} == {}


async def _time(client, path):
    """Return the time that server and client took for a page, without what else the machine did."""
    began = time.process_time()
    answer = await client.get(path)
    assert answer.status_code == 200, path
    return time.process_time() - began

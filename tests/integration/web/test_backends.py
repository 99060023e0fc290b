"""Every page works with every queue backend."""

import pytest

from shoal.core.model import Bury, Done, Reject, Task
from tests.integration.web.conftest import Dashboard, open_dashboard

BACKENDS = ("postgres_url", "rabbitmq_url")  # which reads its lists from Redis
STATES = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped")


async def make_run(dashboard: Dashboard) -> tuple[str, str]:
    """Return the ids of a run with two partitions, and of its dead letter."""
    run = await dashboard.queue.start_run("books")
    tasks = [
        Task(url=f"https://shop{n}.example/{n}", step="listing", partition=f"part{n % 2}") for n in range(6)
    ]
    await dashboard.queue.enqueue(run.id, tasks)
    await dashboard.queue.beat("machine-1", run_id=run.id, info={"errors": {"HttpStatus": 2}})
    done, dead, *_ = (await dashboard.queue.claim("machine-1", run_id=run.id, limit=3)).leases
    item, reject = {"title": "A book"}, Reject(data={"title": ""}, reason="no title")
    await dashboard.queue.settle([Done(done, items=[item], rejects=[reject]), Bury(dead, "HttpStatus: 404")])
    return run.id, dead.task_id


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


async def test_every_page_works_on_every_queue(tmp_path, url):
    async with open_dashboard(tmp_path, url=url) as dashboard, dashboard.client() as client:
        run_id, letter = await make_run(dashboard)
        base = f"/runs/{run_id}"
        expected = {
            "/": "books",
            "/runs": run_id,
            "/workers": "machine-1",
            "/hosts": "shop0.example",
            "/actions": "No actions yet",
            base: "part1",
            f"{base}/items": "A book",
            f"{base}/rejects": "no title",
            f"{base}/dead": "HttpStatus",
            f"{base}/dead/{letter}": "Attempt 1",
            f"{base}/tasks": "shop5.example",
            f"{base}/proxies": "No proxies used",
            f"{base}/tokens": "No API tokens used",
            f"{base}/enqueue": "Add URLs",
            f"{base}/replay?all=1": "Replay 1 dead letter?",
        }
        for path, words in expected.items():
            response = await client.get(path)
            assert (response.status_code, words in response.text) == (200, True), (path, response.text[-600:])
        for state in STATES:
            assert (await client.get(f"{base}/tasks?state={state}")).status_code == 200, state
        await client.post(f"{base}/replay", content="all=1")
        assert "replay" in (await client.get("/actions")).text

"""Every page shows the same, whatever queue is behind it."""

import pytest

from shoal.core.model import Bury, Done, Reject, Task
from tests.integration.web.conftest import Place, opened

BACKENDS = ("postgres_url", "redis_url", "rabbitmq_url")
STATES = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped")


async def books(place: Place) -> tuple[str, str]:
    """Return the ids of a run with two partitions, and of its dead letter."""
    run = await place.queue.start_run("books")
    tasks = [
        Task(url=f"https://shop{n}.example/{n}", step="listing", partition=f"part{n % 2}") for n in range(6)
    ]
    await place.queue.enqueue(run.id, tasks)
    await place.queue.beat("machine-1", run_id=run.id, info={"errors": {"HttpStatus": 2}})
    done, dead, *_ = (await place.queue.claim("machine-1", run_id=run.id, limit=3)).leases
    item, reject = {"title": "A book"}, Reject(data={"title": ""}, reason="no title")
    await place.queue.settle([Done(done, items=[item], rejects=[reject]), Bury(dead, "HttpStatus: 404")])
    return run.id, dead.task_id


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


async def test_every_page_is_there_on_every_queue(tmp_path, url):
    async with opened(tmp_path, url=url) as place, place.client() as client:
        run_id, letter = await books(place)
        base = f"/runs/{run_id}"
        expected = {
            "/": "books",
            "/runs": run_id,
            "/workers": "machine-1",
            "/hosts": "shop0.example",
            "/actions": "Nobody has done anything",
            base: "part1",
            f"{base}/items": "A book",
            f"{base}/rejects": "no title",
            f"{base}/dead": "HttpStatus",
            f"{base}/dead/{letter}": "Attempt 1",
            f"{base}/tasks": "shop5.example",
            f"{base}/proxies": "No proxy has been used",
            f"{base}/replay?all=1": "Replay 1 dead letter?",
        }
        for path, words in expected.items():
            answer = await client.get(path)
            assert (answer.status_code, words in answer.text) == (200, True), (path, answer.text[-600:])
        for state in STATES:
            assert (await client.get(f"{base}/tasks?state={state}")).status_code == 200, state
        await client.post(f"{base}/replay", content="all=1")
        assert "replay" in (await client.get("/actions")).text

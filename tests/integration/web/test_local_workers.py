"""Runs and workers started from the pages, with real worker processes."""

import asyncio

import pytest

from shoal.fleet.status.rates import read_rates
from tests.integration.web.browser import BrowserTab
from tests.integration.web.conftest import Dashboard, open_dashboard
from tests.integration.web.test_browser import click

PROJECT = '[scrapers.people]\nmodule = "people.py:people"\n'
SCRAPER = """
import asyncio
from pathlib import Path

from shoal import Scraper, Task

people = Scraper("people", retries=0, rate=None)
GATE = Path(__file__).with_name("open")

@people.step(fetch=None)
async def person(task: Task):
    while task.url.endswith("wait") and not GATE.exists():
        await asyncio.sleep(0.02)
    if task.url.endswith("bad"):
        raise ValueError("no name")
    yield {"url": task.url}
"""


@pytest.fixture
async def dashboard(tmp_path):
    (tmp_path / "shoal.toml").write_text(PROJECT)
    (tmp_path / "people.py").write_text(SCRAPER)
    async with open_dashboard(tmp_path) as opened:
        yield opened


async def until(condition):
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def start(dashboard: Dashboard, *names: str, workers: int = 1) -> str:
    urls = [f"https://people.example/{name}" for name in names]
    async with dashboard.client() as client:
        body = {"scraper": "people", "urls": urls, "workers": workers}
        response = await client.post("/api/runs", json=body)
        assert response.status_code == 201, response.text
        return response.json()["run_id"]


async def test_a_run_is_started_in_the_browser_and_done_by_a_worker_of_the_server(dashboard, tab: BrowserTab):
    await tab.open(f"{dashboard.address}/scrapers")
    await tab.follow(click("Start a run"))
    lines = "https://people.example/ann\\nhttps://people.example/bad"
    await tab.evaluate(f"document.querySelector('[name=urls]').value = '{lines}'")
    await tab.follow(click("Review"))
    assert "2: https://people.example/ann" in await tab.evaluate("document.querySelector('main').innerText")
    await tab.follow(click("Start run"))
    await tab.until("document.querySelector('#head .state').innerText === 'finished'")
    await tab.until("document.querySelector('#errors').innerText.includes('ValueError')")
    await tab.until("document.querySelector('.tabs').innerText.includes('Dead letters 1')")
    (run,) = await dashboard.queue.runs()
    stats = await dashboard.queue.stats(run.id)
    assert (stats.completed, stats.dead, stats.items) == (1, 1, 1)
    assert not tab.errors

    async def is_recorded():
        points = (await read_rates(dashboard.queue, run.id)).points
        return points and points[-1][1] == 2 and not dashboard.app.local_workers.count()

    await until(is_recorded)  # for the chart, when the server has forgotten the run


async def test_stopped_workers_finish_their_task_and_leave_the_others(dashboard, tmp_path):
    run_id = await start(dashboard, "wait")
    queue, local = dashboard.queue, dashboard.app.local_workers

    async def is_leased():
        return (await queue.stats(run_id)).leased == 1

    await until(is_leased)
    async with dashboard.client() as client:
        response = await client.delete(f"/api/runs/{run_id}/workers")
        assert response.json() == {"run_id": run_id, "stopped": 1}
        assert local.is_stopping(run_id)
        assert "finishing running tasks" in (await client.get(f"/runs/{run_id}")).text
    (tmp_path / "open").touch()

    async def is_done():
        return local.count(run_id) == 0 and (await queue.stats(run_id)).completed == 1

    await until(is_done)


async def test_workers_end_with_the_server_and_their_tasks_go_back_to_the_queue(tmp_path):
    (tmp_path / "shoal.toml").write_text(PROJECT)
    (tmp_path / "people.py").write_text(SCRAPER)
    async with open_dashboard(tmp_path) as opened:
        run_id = await start(opened, "wait", "ann")

        async def is_leased():
            return (await opened.queue.stats(run_id)).leased == 1

        await until(is_leased)
    async with open_dashboard(tmp_path) as again:
        stats = await again.queue.stats(run_id)
        assert (stats.leased, stats.pending) == (0, 1)
        (tmp_path / "open").touch()
        await again.app.work(run_id)

        async def is_done():
            return (await again.queue.stats(run_id)).completed == 2

        await until(is_done)


@pytest.mark.long
async def test_the_page_says_why_workers_could_not_start(dashboard, tmp_path):
    run_id = await start(dashboard, "ann", workers=0)
    await asyncio.to_thread(dashboard.context.scraper_rows.all)
    # It loads here, and fails where a worker loads it.
    broken = SCRAPER.replace("import asyncio\n", "import asyncio\nimport sys\n", 1)
    guard = 'if "pytest" not in sys.modules: raise RuntimeError("no licence")\n'
    (tmp_path / "people.py").write_text(broken.replace("GATE =", f"{guard}GATE =", 1))
    await dashboard.app.work(run_id)

    async def has_failed():
        return bool(dashboard.app.local_workers.failure(run_id))

    await until(has_failed)
    async with dashboard.client() as client:
        assert "no licence" in (await client.get(f"/runs/{run_id}")).text


async def test_workers_of_the_server_follow_the_partition_plan_and_may_be_limited_to_steps(tmp_path):
    (tmp_path / "shoal.toml").write_text(f'{PROJECT}\n[workers]\npartitions = "exclusive"\n')
    (tmp_path / "people.py").write_text(SCRAPER)
    tasks = [
        {"url": f"https://people.example/{state}/wait", "partition": state, "step": "person"}
        for state in ("CA", "NY")
    ]
    async with open_dashboard(tmp_path) as dashboard, dashboard.client() as client:
        response = await client.post("/api/runs", json={"scraper": "people", "tasks": tasks, "workers": 2})
        queued = response.json()
        assert "--partitions exclusive" in queued["worker_command"], queued
        path = f"/api/runs/{queued['run_id']}"

        async def have_owners():
            rows = (await client.get(f"{path}/partitions")).json()["rows"]
            owners = [row["owners"] for row in rows if row["leased"]]
            # A plan is read a moment after the leases.
            return len(owners) == 2 and all(owners) and len({worker for (worker,) in owners}) == 2

        await until(have_owners)
        page = (await client.get(f"/runs/{queued['run_id']}")).text
        owner = (await client.get(f"{path}/partitions")).json()["rows"][0]["owners"][0]
        assert owner in page.split("Owner</th>")[1].split("</table>")[0]
        refused = await client.post(f"{path}/workers", json={"steps": ["nobody"]})
        assert refused.status_code == 422 and "nobody" in refused.text, refused.text
        refused = await client.post(f"{path}/workers", json={"partitions": ["CA"]})
        assert refused.status_code == 409 and "--partitions exclusive" in refused.text, refused.text
        accepted = await client.post(f"{path}/workers", json={"steps": ["person"]})
        assert accepted.json()["here"] == 3, accepted.text
        (tmp_path / "open").touch()

        async def is_drained():
            return not (await dashboard.queue.stats(queued["run_id"])).remaining

        await until(is_drained)

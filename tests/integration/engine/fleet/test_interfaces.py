"""What commands and the JSON API could not do before: hosts, rejects, payloads on demand."""

import asyncio

import pytest

import shoal
from shoal.core.model import MINUTE, Done, Reject, Task
from shoal.web.actions import OperatorActions
from shoal.web.auth import Principal
from shoal.web.context import WebContext, WebSettings
from shoal.web.sampler import Sampler
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Scraper, Task

people = Scraper("people", retries=0)

@people.step(fetch=None)
async def person(task: Task):
    yield {"hello": task.payload["name"]}

@people.step(fetch=None)
async def shout(task: Task):
    yield {"HELLO": task.payload["name"]}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text('[scrapers]\npeople = "people.py:people"\n')
    return tmp_path


@pytest.fixture
async def app(folder):
    async with shoal.connect(f"sqlite:///{folder}/shoal.db", folder=folder) as app:
        yield app


async def test_a_host_is_paused_slowed_and_resumed_by_command(app, folder):
    run = await app.queue.start_run("people")
    await app.queue.enqueue(run.id, [Task(url="https://shop.example/1")])
    paused = await typed("hosts", "pause", "Shop.example", "--for", "5h", "--json", folder=folder)
    assert paused.row == {"host": "shop.example", "paused_seconds": 18_000.0}
    slowed = await typed("hosts", "slow", "shop.example", "--gap", "2s", folder=folder)
    assert "hosts resume shop.example" in slowed.err
    (host,) = (await typed("hosts", "--json", folder=folder)).rows
    assert (host["delay_seconds"], 17_000 < host["paused_seconds"] <= 18_000) == (2.0, True)
    assert (await typed("hosts", "resume", "shop.example", folder=folder)).code == 0
    assert "run's rate" in (await typed("hosts", "--run", run.id, folder=folder)).out


async def test_rejects_are_listed_with_their_reasons_page_by_page(app, folder):
    run = await app.queue.start_run("people")
    await app.queue.enqueue(run.id, [Task(payload={"n": 1}, step="person")])
    (lease,) = (await app.queue.claim("w", run_id=run.id)).leases
    rejects = [Reject(data={"title": ""}, reason=f"no title {number}") for number in range(3)]
    await app.queue.settle([Done(lease, rejects=rejects)])
    first = await typed("rejects", run.id, "--limit", "2", "--json", folder=folder)
    assert [row["reason"] for row in first.rows] == ["no title 0", "no title 1"]
    again = await typed("rejects", "--after", first.err.split()[-1], folder=folder)  # of the newest run
    assert "no title 2" in again.out and "no title 1" not in again.out
    handle = await app.run(run.id)
    assert [one.reason async for one in handle.rejects()] == [f"no title {number}" for number in range(3)]


async def test_a_payload_is_handled_on_demand_by_command_by_http_and_by_program(app, folder):
    await app.listen("people", workers=1)
    done, loud = await asyncio.gather(
        typed("scrape", "people", "--payload", '{"name": "ann"}', folder=folder),
        typed("scrape", "people", "--payload", '{"name": "ann"}', "--step", "shout", folder=folder),
    )
    assert (done.row, loud.row) == ({"hello": "ann"}, {"HELLO": "ann"}), done.err
    site = WebContext(app, Sampler(app.queue), WebSettings.read(operator_token="operator-0123456789abcdef"))
    operator = OperatorActions(site, Principal(name="me", role="operator"))
    scraped = await operator.scrape("people", Task(payload={"name": "bob"}, step="shout"), timeout=MINUTE)
    assert scraped.items == [{"HELLO": "bob"}]
    assert "--payload" in (await typed("scrape", "people", folder=folder)).err

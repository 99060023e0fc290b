"""`shoal serve` as a process, over real HTTP."""

import asyncio
import re
import socket
import textwrap
from contextlib import asynccontextmanager

import httpx2
import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.model import Bury, Done, Reject, Task
from shoal.web.app import make_app
from shoal.web.context import WebContext, WebSettings
from shoal.web.sampler import Sampler
from tests.integration.engine.calls import PAGES
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import start, typed

TOKEN = "operator-c4nary-0123456789"
PATIENCE = 30.0  # seconds


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text("from shoal import Page, Scraper\n" + textwrap.dedent(PAGES))
    (tmp_path / "shoal.toml").write_text('[scrapers.pages]\nmodule = "pages.py:pages"\n')
    return tmp_path


@asynccontextmanager
async def served(folder, *options, **environment):
    """Start a server at a free port; yield its process, its address and what it said."""
    process = await start("serve", "--port", "0", *options, folder=folder, **environment)
    said = []
    try:
        async with asyncio.timeout(PATIENCE):
            while not any(line.startswith("Serving Shoal at ") for line in said):
                said.append((await process.stderr.readline()).decode())
                assert said[-1], said
        address = re.search(r"http://\S+", said[-1])[0]
        yield process, address, said
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.communicate(), PATIENCE)


@pytest.mark.long
async def test_without_a_token_a_link_logs_in_once(folder):
    async with served(folder) as (process, address, _):
        line = (await process.stderr.readline()).decode()
        link = re.search(r"http://\S+ticket=\S+", line)[0]
        async with httpx2.AsyncClient() as browser, httpx2.AsyncClient() as thief:
            assert (await browser.get(f"{address}/api/runs")).status_code == 401
            assert (await browser.get(link)).status_code == 303
            assert (await browser.get(f"{address}/api/runs")).json() == {"rows": [], "next": None}
            assert (await browser.get(f"{address}/")).status_code == 200
            assert (await thief.get(link)).status_code == 403


async def test_runs_are_queued_pages_scraped_on_demand_and_nothing_it_says_holds_its_token(folder, origin):
    origin.answer = lambda path: Answer(f"<title>{path}</title><a href=/next>next</a>")
    (folder / "token").write_text(f"{TOKEN}\n")
    own = {"Authorization": f"Bearer {TOKEN}"}
    listening = await start("listen", "pages", folder=folder)
    try:
        async with served(folder, "--token-file", "token") as (process, address, said):
            async with httpx2.AsyncClient(headers=own, base_url=address, timeout=PATIENCE) as client:
                body = {"scraper": "pages", "urls": ["https://a.example.com/"]}
                queued = (await client.post("/api/runs", json=body)).json()
                assert queued["worker_command"] == f"shoal work pages --run {queued['run_id']}"
                assert (await client.get(f"/api/runs/{queued['run_id']}")).json()["pending"] == 1
                assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain")
                url = f"{origin.url}/1"
                body = {"scraper": "pages", "url": url, "payload": {"timeout": 1}, "timeout": 20}
                async with asyncio.timeout(PATIENCE):
                    while (answer := await client.post("/api/scrape", json=body)).status_code == 503:
                        assert answer.json()["error"] == "NobodyListens"
                        await asyncio.sleep(0.1)
            process.terminate()
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        listening.terminate()
        _, heard = await asyncio.wait_for(listening.communicate(), PATIENCE)
    assert listening.returncode == Exit.OK and "listening: http://127.0.0.1:" in heard.decode()
    found = answer.json()
    assert (answer.status_code, found["items"][0]["title"]) == (200, "/1")
    assert found["follow"] == [{"url": f"{origin.url}/next", "step": "page"}]
    assert "c4nary" not in "".join(said) + out.decode() + err.decode()


async def test_every_question_is_answered_on_every_backend(any_bench):
    async with shoal.connect(any_bench.queue_url, folder=any_bench.folder) as app:
        run = await app.queue.start_run("pages")
        tasks = [Task(url=f"https://h{n}.example.com/", step="page") for n in range(4)]
        await app.queue.enqueue(run.id, tasks)
        good, bad = (await app.queue.claim("w-1-a", run_id=run.id, limit=2)).leases
        await app.queue.beat("w-1-a", run_id=run.id)
        await app.queue.settle([Done(good, items=[{"n": 1}], rejects=[Reject(data={}, reason="no")])])
        await app.queue.settle([Bury(bad, "ValueError: bad")])
        await app.schedules.add("nightly", {"scraper": "pages", "cron": "0 2 * * *"})
        web = make_app(WebContext(app, Sampler(app.queue), WebSettings.read(operator_token=TOKEN)))
        own = {"Authorization": f"Bearer {TOKEN}"}
        transport = httpx2.ASGITransport(web)
        async with httpx2.AsyncClient(
            transport=transport, headers=own, base_url="http://127.0.0.1:8700"
        ) as client:
            paths = [path for path, methods in web.openapi()["paths"].items() if "get" in methods]
            assert len(paths) > 20
            for path in paths:
                named = path.format(run_id=run.id, letter=bad.task_id, host="h1.example.com", name="nightly")
                asked = {"before": run.id} if path.endswith("/compare") else None
                answer = await client.get(named, params=asked)
                # Nothing was fetched, so that no page was kept.
                # The run has no `revisit`, and is compared with itself.
                refused = {"/dead/{letter}/page": 404, "/recrawl-plan": 422, "/compare": 422}
                expected = next((code for end, code in refused.items() if path.endswith(end)), 200)
                assert answer.status_code == expected, (named, answer.text)
            for change, body in {
                f"/api/runs/{run.id}/dead/replay": {"ids": [bad.task_id]},
                f"/api/runs/{run.id}/pause": None,
                f"/api/runs/{run.id}/resume": None,
                "/api/hosts/h1.example.com/slow": {"seconds": 1},
                "/api/hosts/h1.example.com/pause": {"seconds": 60},
            }.items():
                assert (await client.post(change, json=body)).status_code == 200, change
            # Its worker may be alive.
            assert (await client.delete(f"/api/runs/{run.id}")).status_code == 409
            assert (await client.post(f"/api/runs/{run.id}/cancel")).status_code == 200
            assert (await client.delete(f"/api/runs/{run.id}")).status_code == 200
            assert len((await client.get("/api/actions")).json()["rows"]) == 7


async def test_a_port_that_is_taken_is_said_in_one_line_with_what_to_type(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = await typed("serve", "--port", port, folder=folder)
    assert found.code == Exit.USAGE
    assert found.err.count("\n") == 1
    assert f"--port {port + 1}" in found.err


@pytest.mark.parametrize(
    ("options", "environment", "words"),
    [
        ([], {"SHOAL_WEB_TOKEN": "c4nary"}, "at least 20"),
        (["--token-file", "nothing"], {}, "openssl rand -hex 24 > nothing"),
        (["--host", "no.such.host.invalid"], {"SHOAL_WEB_TOKEN": TOKEN}, "--host 127.0.0.1"),
    ],
)
async def test_what_is_unsafe_or_wrong_is_said_in_one_line_with_what_to_type(
    folder, options, environment, words
):
    found = await typed("serve", "--port", "0", *options, folder=folder, **environment)
    assert found.code == Exit.USAGE
    assert found.err.count("\n") == 1
    assert words in found.err
    assert "c4nary" not in found.err


async def test_a_queue_that_is_away_is_said_in_one_line(folder):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    found = await typed(
        "serve",
        "--port",
        "0",
        "--queue",
        f"redis://u:c4nary@127.0.0.1:{port}",
        folder=folder,
        SHOAL_PATIENCE="1s",
    )
    assert found.code == Exit.UNAVAILABLE
    assert "cannot be reached" in found.err.splitlines()[-1]
    assert "c4nary" not in found.err

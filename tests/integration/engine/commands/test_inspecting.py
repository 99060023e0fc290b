"""Looking at a fleet from the command line: workers, stale leases, metrics, traces, and all on one screen."""

import asyncio
import json
import os
import re
import shlex
import signal
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shoal.cli.exits import Exit
from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.core.model import Done, Fate, Task
from shoal.fleet.status.stale import release, stale_holders
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import start, typed

HOUR = timedelta(hours=1)
GONE, BUSY = "elsewhere-17-abcd", "elsewhere-18-abcd"

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, per_host=50)

@pages.step
async def page(page: Page):
    if "bad" in page.url:
        raise ValueError("bad")
    yield {"url": page.url}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    return tmp_path


async def hold(url):
    """Let a worker that is gone and one that lives hold a task each; return the run and their leases."""
    async with open_queue(url) as queue:
        run = await queue.start_run("pages")
        tasks = [Task(url=f"https://h{n}.example.com/?token=c4nary", step="page") for n in range(2)]
        await queue.enqueue(run.id, tasks)
        leases = []
        for name, state in ((GONE, "died"), (BUSY, "running")):
            await queue.beat(name, run_id=run.id, state=state)
            grant = await queue.claim(name, run_id=run.id, limit=1, lease=HOUR)
            leases += grant.leases
        return run, leases


async def test_stale_leases_are_found_and_handed_back_on_every_backend(any_bench):
    run, (dead, _) = await hold(any_bench.queue_url)
    async with open_queue(any_bench.queue_url) as queue:
        (holder,) = await stale_holders(queue, run.id)
        assert (holder.worker_id, [task.id for task in holder.tasks]) == (GONE, [dead.task_id])
        assert await release(queue, [holder]) == 1
        assert await stale_holders(queue) == []
        assert await queue.settle([Done(dead)]) == [Fate.STALE]
        assert (await queue.stats(run.id)).leased == 1  # who lives keeps what it has


async def test_stale_leases_are_shown_and_only_those_of_the_dead_are_handed_back_unnamed(bench, folder):
    run, _ = await hold(bench.queue_url)
    words = ("stale", run.id, "--older", "0s", "--queue", bench.queue_url)
    shown = await typed(*words, "--json", folder=folder)
    assert {row["worker_id"]: (row["gone"], row["leases"]) for row in shown.rows} == {
        GONE: (True, 1),
        BUSY: (False, 1),
    }
    assert "c4nary" not in shown.out
    assert f"Release them:  shoal stale {run.id} --release --older 0s" in shown.err
    assert "1 worker is alive and may be busy" in shown.err
    released = await typed(*words, "--release", folder=folder)
    assert (released.code, "Released 1 lease." in released.err) == (Exit.OK, True)
    assert BUSY in (await typed(*words, folder=folder)).out
    (command,) = re.findall(r"^  shoal (stale .* --worker \S+)$", shown.err, re.MULTILINE)
    taken = await typed(*shlex.split(command), folder=folder)
    assert "Released 1 lease." in taken.err, "the command that was printed works"
    async with open_queue(bench.queue_url) as queue:
        assert (await queue.stats(run.id)).leased == 0


async def test_what_is_tried_once_at_most_is_never_handed_back_by_hand(any_bench):
    run, (dead, _) = await hold(any_bench.queue_url)
    async with open_queue(any_bench.queue_url) as queue:
        await queue.beat(GONE, run_id=run.id, state="died", info={"at_most_once": True})
        assert await release(queue, await stale_holders(queue, run.id)) == 0
        assert (await queue.stats(run.id)).leased == 2
        assert await queue.settle([Done(dead)]) == [Fate.ACCEPTED]


async def worker_pids(folder):
    rows = (await typed("workers", "--json", folder=folder)).rows
    return [row["info"]["pid"] for row in rows if row["info"].get("pid")]


@pytest.mark.long
async def test_the_death_of_a_worker_is_reported_with_json_too(folder, origin):
    origin.answer = lambda path: Answer(after=0.3)
    urls = [word for n in range(40) for word in ("--url", f"{origin.url}/{n}")]
    process = await start("run", "pages.py", "--json", "--concurrency", "1", *urls, folder=folder)
    try:
        async with asyncio.timeout(60):
            while not (pids := await worker_pids(folder)) or not origin.visits:
                await asyncio.sleep(0.1)
            os.kill(pids[0], signal.SIGKILL)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    said = [json.loads(line) for line in err.decode().splitlines()]
    assert {"message": "A worker was ended by SIGKILL; starting another."} in said
    assert json.loads(out)["completed"] == 40


async def test_a_worker_that_nobody_knows_is_refused(bench, folder):
    await hold(bench.queue_url)
    said = await typed("stale", "--worker", "elsewhere-18-abce", "--queue", bench.queue_url, folder=folder)
    assert (said.code, f"Did you mean {BUSY!r}?" in said.err) == (Exit.USAGE, True)


async def test_workers_say_what_they_serve_and_how_they_are(folder, origin):
    urls = [word for n in range(5) for word in ("--url", f"{origin.url}/{n}")]
    await typed("run", "pages.py", "--json", "--steps", "page", *urls, folder=folder)
    assert (await typed("workers", "--json", folder=folder)).rows == []
    rows = (await typed("workers", "--all", "--json", folder=folder)).rows
    (row,) = [row for row in rows if row["steps"]]
    assert (row["state"], row["steps"], row["last_hour"], row["leased"]) == ("ended", ["page"], 5, 0)
    table = await typed("workers", "--all", folder=folder)
    assert all(word in table.out for word in ("steps", "partitions", "last hour", "memory", "last beat"))


async def fetched(url):
    host, port, path = re.fullmatch(r"http://([^:]+):(\d+)(/.*)", url).groups()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


def sampled(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.long
async def test_a_run_serves_metrics_while_it_goes_on(folder, origin):
    origin.answer = lambda path: Answer(after=4.0 if "last" in path else 0.0)
    names = ["a", "b", "bad", "last"]
    urls = [word for name in names for word in ("--url", f"{origin.url}/{name}")]
    process = await start("run", "pages.py", "--metrics", "127.0.0.1:0", *urls, folder=folder)
    line = (await process.stderr.readline()).decode()
    url = re.search(r"http://\S+/metrics", line)[0]
    found = {}
    async with asyncio.timeout(30):
        while found.get(("shoal_tasks_total", "done", "page")) != 2:
            await asyncio.sleep(0.2)
            text = await fetched(url)
            found = sampled(text)
    rows = (await typed("workers", "--json", folder=folder)).rows
    await asyncio.wait_for(process.communicate(), 60)
    assert found["shoal_tasks_total", "bury", "page"] == 1
    assert found["shoal_errors_total", "ValueError"] == 1
    assert found["shoal_workers", "running"] == 1
    assert found["shoal_fetch_seconds_count",] == 3
    assert "127.0.0.1" not in text and "/bad" not in text
    assert [row["memory_bytes"] > 10 << 20 for row in rows if row["state"] == "running"] == [True]


async def test_a_port_that_is_taken_is_refused_before_anything_is_queued(bench, origin):
    with pytest.raises(InvalidSetting, match="Name another port"):
        await bench.run(SCRAPER, [f"{origin.url}/a"], metrics=("127.0.0.1", origin.port), run_id="taken")
    async with open_queue(bench.queue_url) as queue:
        with pytest.raises(UnknownRun):  # a start that is refused leaves nothing behind
            await queue.stats("taken")


@pytest.mark.long
async def test_the_metrics_of_a_whole_queue_are_written_or_served(folder, origin):
    await typed("run", "pages.py", "--json", "--url", f"{origin.url}/a", folder=folder)
    once = await typed("metrics", folder=folder)
    assert sampled(once.out)["shoal_queue_tasks", "pages", "completed"] == 1
    process = await start("metrics", "--listen", "127.0.0.1:0", folder=folder)
    url = re.search(r"http://\S+/metrics", (await process.stderr.readline()).decode())[0]
    assert sampled(await fetched(url))["shoal_queue_tasks", "pages", "completed"] == 1
    process.terminate()
    await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == Exit.OK


async def test_logs_and_traces_are_had_for_the_asking(folder, origin):
    options = ("--log-dir", "logs", "--log-format", "json", "--trace")
    done = await typed(
        *("run", "pages.py", *options, "--url", f"{origin.url}/a?token=c4nary"),
        folder=folder,
        OTEL_TRACES_EXPORTER="console",
    )
    assert (done.code, "Logs:     logs" in done.err) == (Exit.OK, True)
    lines = [json.loads(line) for line in (folder / "logs" / "worker-1.log").read_text().splitlines()]
    spans = [line["message"] for line in lines if line["event"] == "stdout"]
    names = [re.search(r'"name": "(\w+)"', span)[1] for span in spans]
    assert sorted(names) == ["fetch", "handle", "settle", "task"]
    assert "c4nary" not in (folder / "logs" / "worker-1.log").read_text()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("--log-format", "xml"), "must be 'human' or 'json'"),
        (("--log-level", "loud"), "is not a level"),
        (("--metrics", "here"), "takes HOST:PORT or PORT"),
        (("--log-dir", "pages.py"), "Name a folder"),
    ],
)
async def test_what_cannot_be_used_is_refused_with_what_to_type(folder, words, advice):
    said = await typed("run", "pages.py", "--url", "http://127.0.0.1:1/", *words, folder=folder)
    assert (said.code, advice in said.err) == (Exit.USAGE, True)


async def test_one_screen_shows_all_of_it_without_a_terminal(folder, origin):
    await typed("run", "pages.py", "--json", "--url", f"{origin.url}/a", folder=folder)
    said = await typed("top", folder=folder)
    assert said.code == Exit.OK
    assert all(
        word in said.out for word in ("shoal top", "RUN", "WORKER", "HOST", f"127.0.0.1:{origin.port}")
    )
    row = (await typed("top", "--once", "--json", folder=folder)).row
    assert (len(row["runs"]), row["runs"][0]["completed"], row["hosts"][0]["completed"]) == (1, 1, 1)


async def test_updates_end_well_with_the_reader_of_the_pipe(folder):
    until_read = ("sh", "-c", '{ "$@"; echo code $? >&2; } | head -n 1', "sh")
    process = await start("top", "--json", "--every", "0.2", folder=folder, within=until_read)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert (len(out.splitlines()), err.decode()) == (1, f"code {Exit.OK}\n")

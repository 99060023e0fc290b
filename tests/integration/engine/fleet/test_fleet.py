"""`shoal fleet` as a person meets it: the plan, the question, the start, the stop, and nobody left behind."""

import asyncio
import json
import os
import signal
import sys
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from shoal.cli.exits import Exit
from shoal.fleet.telemetry.logs import LogFormat, LogPlan
from tests.integration.engine.origin import Answer
from tests.integration.engine.sessions import left_over
from tests.integration.engine.shell import start, typed
from tests.integration.processes import start_process

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0)

@pages.step
async def page(page: Page):
    for link in page.links("a"):
        yield page.follow(link)
    yield {"url": page.url}
"""
LOCAL = ("--allow-private", "127.0.0.0/8")
PAGES = 30


@pytest.fixture
def folder(tmp_path, origin):
    (tmp_path / "pages.py").write_text(SCRAPER)
    lines = (f"{origin.url}/{number},{'abc'[number % 3]}\n" for number in range(PAGES))
    (tmp_path / "urls.csv").write_text("url,letter\n" + "".join(lines))
    return tmp_path


def words(*more):
    return ("fleet", "pages.py", "--urls-file", "urls.csv", "--partition", "letter", *LOCAL, *more)


async def counts(folder):
    return (await typed("status", "--json", folder=folder)).row


async def test_a_fleet_shows_its_plan_starts_and_drains_the_run(folder, origin):
    done = await typed(*words("--workers", "3", "--stagger", "0"), folder=folder)
    assert done.code == Exit.OK, done.err
    assert "30 tasks on 1 host" in done.err and "Done: 30 pages, 30 items" in done.err
    assert [line.split()[:3] for line in done.err.splitlines() if " all " in line] == [
        [str(number), "all", "10"] for number in (1, 2, 3)
    ]
    assert set(origin.visits.values()) == {1}
    assert {"fleet.log", "worker-3.log"} <= {path.name for path in (folder / "logs").iterdir()}


async def test_with_json_the_plan_by_partitions_and_skipped_seeds_are_shown_and_each_line_is_json(folder):
    with (folder / "urls.csv").open("a") as file:
        file.write("nonsense,a\n")
    done = await typed(
        *words("--workers", "2", "--stagger", "0", "--partitions", "auto", "--json"), folder=folder
    )
    assert done.code == Exit.OK, done.err
    assert (done.row["enqueued"], done.row["completed"], done.row["invalid"]) == (PAGES, PAGES, 1)
    assert sorted((part["serves"], part["pending"]) for part in done.row["plan"]) == [("a, c", 20), ("b", 10)]
    (refused,) = done.row["refused"]
    assert (refused["where"], refused["text"]) == (f"urls.csv:{PAGES + 2}", "nonsense")
    messages = [json.loads(line).get("message", "") for line in done.err.splitlines()]
    assert any(message.startswith(f"Skipped urls.csv:{PAGES + 2}") for message in messages)


async def test_a_test_takes_two_workers_and_at_most_twenty_pages(folder, origin):
    origin.answer = lambda path: Answer(body=f"<a href='{path}1'>1</a><a href='{path}2'>2</a>")
    done = await typed(*words("--workers", "8", "--test", "--stagger", "0"), folder=folder)
    assert done.code == Exit.OK, done.err
    assert "Tested: " in done.err and "without --test" in done.err
    assert sum(origin.visits.values()) == 20
    row = await counts(folder)  # a partial run is not compared with others
    assert (row["state"], row["reason"][:13]) == ("partial", "max_pages=20 ")


async def test_where_something_is_bad_nothing_is_started(folder, origin):
    done = await typed(*words("--queue", "sqlite:///pages.py/queue.db"), folder=folder)
    assert done.code == Exit.FAILED
    assert "Fix these first: queue" in done.err and not origin.visits


@pytest.mark.parametrize(("answer", "code", "pages"), [("n", Exit.PARTIAL, 0), ("y", Exit.OK, PAGES)])
async def test_in_a_terminal_it_asks_first(folder, origin, answer, code, pages):
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    process = await start_process(
        sys.executable, "-m", "shoal", *words("--stagger", "0"), cwd=folder, stdin=theirs,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    _, err = await asyncio.wait_for(process.communicate(), 60)
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, sum(origin.visits.values())) == (code, pages), err
    assert b"Start 1 worker?" in err
    assert (b"shoal purge" in err) == (answer == "n")


async def interrupted(process, times):
    """Press Ctrl-C, and return what the command said until its end."""
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        await asyncio.sleep(0.1)
    _, err = await asyncio.wait_for(process.communicate(), 15)
    assert process.returncode == Exit.PARTIAL, err
    assert left_over(process.pid) == []
    return err.decode()


async def begun(folder, origin, pages=10):
    """Start three workers, and return when all are there and a few pages have been asked for."""
    process = await start(*words("--workers", "3", "--stagger", "0"), folder=folder)
    try:
        async with asyncio.timeout(60):
            # The launcher, the fork server and three workers.
            while len(origin.visits) < pages or len(left_over(process.pid)) < 5:
                await asyncio.sleep(0.02)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process


@pytest.mark.long
async def test_the_first_ctrl_c_finishes_and_nobody_is_left_behind(folder, origin):
    origin.answer = lambda path: Answer(after=1)
    assert "Finishing" in await interrupted(await begun(folder, origin), 1)
    row = await counts(folder)
    assert (row["leased"], row["dead"], row["completed"]) == (0, 0, sum(origin.visits.values()))
    assert row["pending"] == PAGES - row["completed"]


async def test_the_second_ctrl_c_hands_back_and_nobody_is_left_behind(folder, origin):
    origin.answer = lambda path: Answer(after=30)
    assert "Returning" in await interrupted(await begun(folder, origin), 2)
    row = await counts(folder)
    assert (row["leased"], row["dead"], row["completed"], row["pending"]) == (0, 0, 0, PAGES)


async def test_the_third_ctrl_c_kills_what_does_not_listen_and_nobody_is_left_behind(folder, origin):
    code = SCRAPER.replace("retries=0", "retries=1").replace(
        "    for", "    __import__('time').sleep(60)\n    for"
    )
    (folder / "pages.py").write_text(code)
    process = await begun(folder, origin, pages=1)
    await asyncio.sleep(0.5)
    await interrupted(process, 3)
    row = await counts(folder)
    assert (row["leased"], row["dead"], row["remaining"]) == (0, 0, PAGES)


ONE_IS_WELL = """
import os, sys
if sys.argv[0] == "shoal.worker.process.main":
    try:
        open(os.environ["SHOAL_TEST_PLACE"], "x").close()
    except FileExistsError:
        print("no licence for a second one", flush=True)
        os._exit(7)
pages = Scraper("pages", rate=None, robots=False)

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""


async def test_a_worker_that_dies_on_start_is_given_up_while_the_others_drain_the_run(
    bench, origin, monkeypatch, tmp_path
):
    monkeypatch.setenv("SHOAL_TEST_PLACE", str(tmp_path / "taken"))
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    origin.answer = lambda path: Answer(after=0.1)
    urls = [f"{origin.url}/{number}" for number in range(150)]
    summary = await bench.run(ONE_IS_WELL, urls, workers=2, concurrency=4, batch=4)
    assert summary.snapshot.stats.completed == 150 and not summary.ending.failed
    assert bench.witness.pool.restarts == 5
    (failure,) = summary.ending.failures
    assert "exit code 7" in failure and "no licence for a second one" in failure
    said = bench.witness.said_lines
    assert any("is not restarted; the others continue" in line for line in said)
    assert "no licence for a second one" in said


async def test_a_stop_does_not_wait_for_the_next_try(bench, origin, monkeypatch, tmp_path):
    (tmp_path / "taken").touch()
    monkeypatch.setenv("SHOAL_TEST_PLACE", str(tmp_path / "taken"))
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 1_000.0)

    def stop(snapshot, pool):
        if pool.restarts and not stopped:
            stopped.append(pool.stop())

    stopped = []
    bench.witness.on_saw = stop
    async with asyncio.timeout(20):
        summary = await bench.run(ONE_IS_WELL, [f"{origin.url}/1"])
    assert summary.ending.reasons == ["stopped"]


PLAIN = """
pages = Scraper("pages", rate=None, robots=False)

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""


async def test_workers_start_one_after_the_other(bench, origin, tmp_path):
    origin.answer = lambda path: Answer(after=0.2)
    plan = LogPlan(folder=tmp_path / "logs", format=LogFormat.JSON)
    urls = [f"{origin.url}/{number}" for number in range(60)]
    gap = timedelta(seconds=0.4)
    await bench.run(PLAIN, urls, workers=3, concurrency=4, batch=4, stagger=gap, logs=plan)
    events = map(json.loads, (plan.folder / "fleet.log").read_text().splitlines())
    starts = [datetime.fromisoformat(event["at"]) for event in events if event["event"] == "worker started"]
    assert len(starts) == 3
    assert all(later - sooner > gap * 0.7 for sooner, later in pairwise(starts))


async def test_a_run_that_is_drained_does_not_wait_for_those_who_were_to_come(bench, origin):
    async with asyncio.timeout(20):
        summary = await bench.run(PLAIN, [f"{origin.url}/1"], workers=3, stagger=timedelta(seconds=1_000))
    assert summary.ending.reasons == ["drained"] * 3

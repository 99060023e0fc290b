"""The logs of real workers: what is in them, what never is, and how large they get."""

import json

import pytest

from shoal.core.events import Level
from shoal.fleet.telemetry.logs import LogFormat, LogPlan
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

CANARY = "c4nary"

LOUD = f"""
import logging

loud = Scraper(
    "loud", rate=None, robots=False, retries=0,
    headers={{"Authorization": "Bearer {CANARY}1", "Cookie": "a={CANARY}2", "X-Private-Token": "{CANARY}3"}},
)

@loud.step
async def page(page: Page):
    print("asked", page.url, dict(page.task.payload))
    logging.getLogger("mine").debug("sent %s", "Authorization: Basic {CANARY}4")
    logging.getLogger("mine").warning("as header: {CANARY}1")
    if "bad" in page.url:
        raise ValueError("cannot get https://me:{CANARY}5@example.com/?key={CANARY}6 with password={CANARY}7")
    yield {{"url": page.url}}
"""


@pytest.fixture
def plan(tmp_path):
    return LogPlan(folder=tmp_path / "logs", format=LogFormat.JSON, level=Level.DEBUG)


def lines_of(plan, name):
    return [json.loads(line) for line in (plan.folder / name).read_text().splitlines()]


def events(lines):
    return [line["event"] for line in lines]


async def test_every_line_says_which_run_and_worker_and_a_tasks_line_which_task(bench, origin, plan):
    summary = await bench.run(LOUD, [f"{origin.url}/bad"], logs=plan)
    lines = lines_of(plan, "worker-1.log")
    assert {line["run"] for line in lines} == {summary.run.id}
    assert len({line["worker"] for line in lines}) == 1
    (failed,) = [line for line in lines if line["event"] == "task failed"]
    (letter,) = await bench.dead(summary.run.id)
    assert (failed["task"], failed["attempt"], failed["error"]) == (letter.id, 1, "ValueError")
    assert (failed["level"], failed["outcome"]) == ("warning", "bury")


async def test_each_worker_has_a_file_and_the_fleet_has_one(bench, origin, plan):
    summary = await bench.run(LOUD, [f"{origin.url}/{n}" for n in range(30)], logs=plan, workers=3)
    files = sorted(path.name for path in plan.folder.iterdir() if path.suffix == ".log")
    assert files == ["fleet.log", "worker-1.log", "worker-2.log", "worker-3.log"]
    fleet = events(lines_of(plan, "fleet.log"))
    assert (fleet[0], fleet[-1]) == ("run begun", "run ended")
    assert fleet.count("worker started") == fleet.count("worker ended") == 3
    done = [line for name in files[1:] for line in lines_of(plan, name) if line["event"] == "task done"]
    assert len(done) == summary.snapshot.stats.completed == 30


async def test_the_last_words_of_a_worker_that_dies_are_kept(bench, origin, plan):
    code = """
    import os
    dying = Scraper("dying", rate=None, robots=False, retries=0)

    @dying.step
    async def page(page: Page):
        if "bad" in page.url:
            print("my last words", flush=True)
            os._exit(3)
        yield {"url": page.url}
    """
    await bench.run(code, [f"{origin.url}/bad", f"{origin.url}/good"], logs=plan)
    fleet = lines_of(plan, "fleet.log")
    assert {"worker died", "worker restarted"} <= set(events(fleet))
    (death,) = [line for line in fleet if line["event"] == "worker died"]
    assert (death["message"], death["blamed"], death["level"]) == ("left with exit code 3", 1, "error")
    own = lines_of(plan, "worker-1.log")
    assert "my last words" in [line.get("message") for line in own]
    assert len({line["worker"] for line in own}) == 2  # whoever took its place writes on


async def test_a_worker_that_cannot_begin_is_given_up_and_the_log_says_why(bench, origin, plan):
    code = """
    import sys
    broken = Scraper("broken", rate=None)

    @broken.step
    async def page(page: Page):
        yield {}

    if sys.argv[0] == "shoal.worker.process.main":
        sys.exit("no luck here")
    """
    summary = await bench.run(code, [f"{origin.url}/a"], logs=plan)
    assert summary.ending.failed
    fleet = lines_of(plan, "fleet.log")
    (given_up,) = [line for line in fleet if line["event"] == "worker given up"]
    assert given_up["level"] == "error"
    assert "no luck here" in json.dumps(given_up)


async def test_hosts_that_are_spared_are_in_the_log(bench, origin, plan):
    origin.answer = lambda path: Answer(status=429, headers={"Retry-After": "1"})
    await bench.run(LOUD, [f"{origin.url}/a"], logs=plan)
    named = {line["event"]: line["host"] for line in lines_of(plan, "worker-1.log") if "host" in line}
    assert named == dict.fromkeys(["host slowed", "host paused"], f"127.0.0.1:{origin.port}")


async def test_logs_stay_within_their_bounds(bench, origin, tmp_path):
    plan = LogPlan(folder=tmp_path / "logs", most_bytes=4_000, keep=2)
    await bench.run(LOUD, [f"{origin.url}/{n}" for n in range(200)], logs=plan)
    files = list(plan.folder.glob("worker-1.log*"))
    assert sorted(path.name for path in files) == ["worker-1.log", "worker-1.log.1", "worker-1.log.2"]
    assert all(path.stat().st_size <= 4_000 for path in files)


async def test_a_line_that_never_ends_harms_neither_the_worker_nor_its_log(bench, origin, plan):
    code = """
    wordy = Scraper("wordy", rate=None, robots=False, retries=0)

    @wordy.step
    async def page(page: Page):
        print("x" * 300_000)
        yield {"url": page.url}
    """
    summary = await bench.run(code, [f"{origin.url}/{n}" for n in range(3)], logs=plan)
    assert summary.snapshot.stats.completed == 3
    assert "(a line that is too long to show)" in bench.witness.printed_lines


PICKY = """
picky = Scraper("picky", rate=None, robots=False, retries=0, allow_private=["127.0.0.0/8"])

@picky.step
async def page(page: Page):
    print("asked", page.url)
    yield {"url": page.url}
    yield Reject(data={"url": page.url}, reason="not wanted")
"""


@pytest.fixture
def picky(bench, origin):
    """Type `shoal run` for a scraper that logs, with more words."""
    bench.write(PICKY.replace("picky =", "from shoal import Reject\n\npicky =", 1))

    async def run(*words, **environment):
        command = ("run", "scraper.py", "--url", f"{origin.url}/a?key={CANARY}", *words)
        return await typed(*command, folder=bench.folder, **environment)

    return run


async def test_in_a_container_each_task_is_a_line_on_stdout(picky, bench):
    did = await picky(SHOAL_LOG_DIR="-", SHOAL_LOG_FORMAT="json")
    assert did.code == 0, did.err
    lines = {line["event"]: line for line in did.rows}
    begun, done = lines["task begun"], lines["task done"]
    assert begun["task"] == done["task"] and begun["url"].endswith("/a?key=…")
    assert (done["step"], done["outcome"], done["items"], done["rejected"]) == ("page", "done", 1, 1)
    assert done["level"] == "info" and done["seconds"] >= 0
    assert {"run begun", "worker started", "worker ended", "stdout", "run ended"} <= lines.keys()
    assert len(did.rows) == len(lines)  # nothing is said twice
    assert CANARY not in did.out
    assert not (bench.folder / "-").exists() and "Logs:" not in did.err


async def test_where_data_are_on_stdout_log_lines_are_on_stderr(picky):
    did = await picky("--log-dir", "-", "--json")
    assert did.row["items"] == 1
    assert " task begun " in did.err and " task done " in did.err
    did = await picky("--log-dir", "-", "--out", "-")
    assert list(did.row) == ["url"]
    assert " task done " in did.err


async def test_a_log_that_is_no_folder_is_refused_before_a_run_is_made(picky, bench):
    did = await picky("--log-dir", "/dev/stdout", "--workers", "1")
    assert did.code == 2
    assert "--log-dir - for stdout" in did.err
    assert not (bench.folder / "shoal.db").exists()

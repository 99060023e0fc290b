"""The autoscaler with real workers: it follows the load, lets workers finish, and leaves nobody behind."""

import ast
import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.cli.exits import Exit
from shoal.cli.options.workers import read_job
from shoal.core.model import MINUTE, SECOND, RunSettings, Task
from shoal.core.procfs import pid_scope
from shoal.fleet.connect import connect
from shoal.fleet.run.open_run import open_job
from shoal.fleet.scale.autoscaler import Autoscaler
from shoal.fleet.scale.decide import ScaleBounds, load_of
from shoal.fleet.scale.local import LocalWorkers
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer
from tests.integration.engine.sessions import left_over
from tests.integration.engine.shell import start, typed

PAGES = """
pages = Scraper("pages", rate=None, robots=False, retries=0, per_host=200)

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""
CREW, PAGES_WAITING = 4, 800
TERMS = int(os.environ.get("SHOAL_TERMS", "3"))  # how often each of these workers is asked to leave
LONGEST_EXIT = 5.0  # seconds


@asynccontextmanager
async def staffed(bench, origin, count):
    """Yield a queue, a run with so many pages, and nobody yet to work on it."""
    job = read_job(
        bench.write(PAGES),
        queue=bench.queue_url,
        allow_private=["127.0.0.0/8"],
        changes=["mode=distributed"],
        concurrency=4,
        batch=4,
    )
    async with open_queue(bench.queue_url) as queue:
        run = (await open_job(queue, job, run_id="scaled")).run
        await fill(queue, run, origin, count)
        async with LocalWorkers(queue, job, run) as workers:
            yield queue, run, workers
        assert workers.pids == []


async def fill(queue, run, origin, count, first=0):
    tasks = [Task(url=f"{origin.url}/{number}", step="page") for number in range(first, first + count)]
    await queue.enqueue(run.id, tasks)


async def until(found, seconds=30):
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not await found():
            await asyncio.sleep(0.02)


async def test_on_every_backend_ready_is_what_can_be_done_now(any_bench):
    async with open_queue(any_bench.queue_url) as queue:
        run = await queue.start_run("pages", settings=RunSettings(host_delay=SECOND))
        urls = [f"http://{host}.example/{number}" for host in "ab" for number in range(5)]
        await queue.enqueue(run.id, [Task(url=url) for url in urls])
        found = await load_of(queue, run)
        assert (found.ready, found.hosts, found.rate, found.most_useful) == (10, 2, 2.0, 1)
        await queue.pause_host("a.example", timedelta(minutes=1))
        found = await load_of(queue, run)
        assert (found.ready, found.later, found.rate) == (5, 5, 1.0)
        await queue.enqueue(run.id, [Task(payload={"n": 1}), Task(payload={"n": 2}, delay=SECOND / 2)])
        found = await load_of(queue, run)
        assert (found.ready, found.later, found.most_useful) == (6, 6, None)
        # With no worker there, nobody else ends a delay.
        await until(lambda: is_ready(queue, run, 7))
        await queue.claim("me", run_id=run.id, limit=1, lease=timedelta(minutes=1))
        found = await load_of(queue, run)
        assert (found.ready, found.leased) == (6, 1)


async def is_ready(queue, run, count):
    return (await load_of(queue, run)).ready == count


@pytest.mark.long
async def test_workers_follow_a_load_from_nothing_up_and_back_and_up_again(bench, origin):
    origin.answer = lambda path: Answer(after=0.05)
    async with staffed(bench, origin, 0) as (queue, run, workers):
        seen = []
        scaler = Autoscaler(
            queue,
            run.id,
            workers,
            ScaleBounds(most=3, tasks_per_worker=50, cooldown=SECOND),
            every=SECOND / 5,
            on_decision=lambda decision: seen.append(decision.target),
        )
        scaling = asyncio.create_task(scaler.run())
        await until(lambda: is_seen(seen, 3))
        assert set(seen) == {0}
        for first in (0, 150):
            seen.clear()
            await fill(queue, run, origin, 150, first)
            await until(lambda: is_gone(queue, run, workers))
            await until(lambda: is_seen(seen, 3, last=0))
            risen = seen[seen.index(3) :]
            assert max(seen) == 3 and risen == sorted(risen, reverse=True)  # up at once, then only down
        scaler.stop()
        await scaling
        stats = await queue.stats(run.id)
        assert (stats.completed, stats.dead) == (300, 0)
    assert set(origin.visits.values()) == {1}


async def is_seen(seen, count, last=None):
    return len(seen) >= count and (last is None or seen[-1] == last)


async def is_gone(queue, run, workers):
    return not (await queue.stats(run.id)).remaining and not workers.pids


async def test_what_a_dead_worker_held_at_most_once_is_not_asked_for_again(bench, origin):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = f"{socket.gethostname()}-{process.pid}-abcd1234"
    job = read_job(
        bench.write(PAGES.replace("retries=0", 'delivery="at_most_once"')),
        queue=bench.queue_url,
        allow_private=["127.0.0.0/8"],
        changes=["mode=distributed"],
    )
    async with open_queue(bench.queue_url) as queue:
        run = (await open_job(queue, job, run_id="scaled")).run
        await fill(queue, run, origin, 1)
        await queue.beat(dead, run_id=run.id, info={"pid_scope": pid_scope(), "at_most_once": ["page"]})
        await queue.claim(dead, run_id=run.id, limit=1, lease=MINUTE)
        async with LocalWorkers(queue, job, run) as workers:
            assert (await queue.stats(run.id)).dead == 1
            assert not workers.pids and not origin.visits


async def has_begun(origin, pages):
    return len(origin.visits) >= pages


async def is_manned(workers, count):
    # Again and again, as the scaler does: a worker that is gone counts until its leases are handed back.
    await workers.set(count)
    return len(living(workers)) == count


def living(workers):
    """Return the processes of the workers that are there, each with its birth: numbers come again."""
    return [(pid, birth) for pid in workers.pids if (birth := born(pid))]


def born(pid):
    """Return when a process began, None where there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(fields[18])


def is_there(process):
    pid, birth = process
    return born(pid) == birth


async def asked_to_leave(processes, sign=signal.SIGTERM):
    """Send a signal to processes, wait until all are gone, and return how long that took."""
    began = time.monotonic()
    for process in processes:
        if is_there(process):
            os.kill(process[0], sign)

    async def gone():
        return not any(map(is_there, processes))

    await until(gone, 4 * LONGEST_EXIT)
    return time.monotonic() - began


@pytest.mark.long
async def test_workers_that_are_asked_to_leave_again_and_again_lose_and_charge_nothing(bench, origin):
    origin.answer = lambda path: Answer(after=random.uniform(0, 0.2))
    pages, exits, seen, said = PAGES_WAITING, [], set(), []
    async with staffed(bench, origin, pages) as (queue, run, workers):
        workers._host.observer.on_message = said.append
        for _ in range(TERMS):
            if (await queue.stats(run.id)).pending < PAGES_WAITING:  # workers of a drained run leave
                await fill(queue, run, origin, PAGES_WAITING // 2, pages)
                pages += PAGES_WAITING // 2
            await until(lambda: is_manned(workers, CREW))
            await asyncio.sleep(random.uniform(0, 0.5))  # at any moment of their lives
            await until(lambda: is_manned(workers, CREW))
            asked = living(workers)
            seen.update(asked)
            exits.append(await asked_to_leave(asked))
        await until(lambda: is_manned(workers, CREW))
        await until(lambda: is_gone(queue, run, workers), 120)
        stats = await queue.stats(run.id)
        items = Counter([item.task_id async for item in queue.items(run.id)])
    print(f"\n{len(seen)} exits, each within {max(exits):.2f} s; {stats.dead} of {pages} tasks were charged")
    assert max(exits) < LONGEST_EXIT, exits
    assert len(seen) == CREW * TERMS and not any(map(is_there, seen))
    assert said == []  # nobody died, and nobody was started in the place of a dead one
    # With no retries an attempt that is charged is a dead letter.
    assert (stats.completed, stats.dead, stats.remaining) == (pages, 0, 0)
    assert len(items) == pages and set(items.values()) == {1}
    assert set(origin.visits.values()) == {1}


async def test_a_worker_that_cannot_work_is_not_started_again_and_again(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    monkeypatch.setattr("shoal.fleet.run.pool.MAX_RESTARTS", 1)
    said = []
    async with staffed(bench, origin, 10) as (_, _, workers):
        workers._host.observer.on_message = said.append
        file = bench.folder / "scraper.py"
        file.write_text("import os, sys\nprint('no licence', flush=True)\nos._exit(7)\n")
        await workers.set(1)
        await until(lambda: has_given_up(said))
        await workers.set(1)
        assert await workers.count() == 0
    assert "no licence" in said


async def has_given_up(said):
    # Not a count of 0, which is also seen between a death and the first restart.
    return any("the next one starts in 15 s" in line for line in said)


# The command


@pytest.fixture
async def folder(bench, origin):
    """A folder with a scraper and a run of thirty pages that nobody works on yet."""
    bench.write(PAGES)
    (bench.folder / "urls.txt").write_text("".join(f"{origin.url}/{number}\n" for number in range(30)))
    queued = await typed(
        "enqueue", "scraper.py", "--urls-file", "urls.txt", "--run", "r", folder=bench.folder
    )
    assert queued.code == Exit.OK
    return bench.folder


LOCAL = ("--allow-private", "127.0.0.0/8")
TEN_EACH = ("--tasks-per-worker", "10")


async def test_once_says_how_many_and_starts_nobody_and_without_it_a_run_is_scaled_to_its_end(folder, origin):
    told = await typed("scale", "r", "--max", "5", *TEN_EACH, "--once", "--json", folder=folder)
    assert told.code == Exit.OK, told.err
    assert (told.row["ready"], told.row["wanted"], told.row["target"]) == (30, 3, 3)
    assert not origin.visits
    more = ("--every", "0.2s", "--cooldown", "1s", "--until-drained", "--json", "--log-dir", "logs")
    told = await typed("scale", "r", "scraper.py", "--max", "2", *TEN_EACH, *more, *LOCAL, folder=folder)
    assert told.code == Exit.OK, told.err
    targets = [row["target"] for row in told.rows]
    assert targets[0] == max(targets) == 2 and targets[-1] <= 2
    assert "Run r: 30 tasks completed, 0 dead letters, 0 left. Details: shoal status r" in told.err
    logs = sorted(path.name for path in (folder / "logs").glob("*.log"))
    assert logs == ["fleet.log", "worker-1.log", "worker-2.log"]


async def test_ctrl_c_lets_the_workers_finish_and_with_json_everything_it_says_is_json(folder, origin):
    code = (folder / "scraper.py").read_text()
    (folder / "scraper.py").write_text(code.replace("    yield", "    print('seen')\n    yield", 1))
    origin.answer = lambda path: Answer(after=0.5)
    words = ("--max", "1", "--concurrency", "2", "--every", "0.2s", "--json", *LOCAL)
    process = await start("scale", "r", "scraper.py", *words, folder=folder)
    await until(lambda: has_begun(origin, 4))
    os.killpg(process.pid, signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == Exit.OK, err
    assert left_over(process.pid) == []
    assert all("target" in json.loads(line) for line in out.splitlines())
    said = [json.loads(line) for line in err.splitlines()]
    assert {"output": "seen"} in said
    assert any("Finishing" in line.get("message", "") for line in said)
    row = (await typed("status", "r", "--json", folder=folder)).row
    assert (row["leased"], row["dead"], row["completed"]) == (0, 0, sum(origin.visits.values()))


async def test_a_mistake_is_answered_with_what_to_type(folder):
    for words, said in (
        (["r", "--max", "2", "--pace", "0"], "--pace must be more than zero"),
        (["nothing", "--max", "2", "--once"], "No run is called"),
        (["r", "--max", "2", "--on", "compose", "--once"], "needs docker, which is not on PATH"),
    ):
        answer = await typed("scale", *words, folder=folder, PATH=str(folder))
        assert answer.code == Exit.USAGE and said in answer.err, answer.err


PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "fleet.md").read_text()


async def test_the_example_of_the_page_runs(tmp_path):
    code = "from shoal import Scraper, Task\n\nbooks = Scraper('books')\n\n@books.step(fetch=None)\n"
    (tmp_path / "books.py").write_text(code + "async def name(task: Task):\n    yield {'name': task.key}\n")
    (tmp_path / "shoal.toml").write_text('[scrapers]\nbooks = "books.py:books"\n')
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = compile(example, "fleet.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with connect(f"sqlite:///{tmp_path}/queue.db", folder=tmp_path) as app, asyncio.timeout(60):
        names = {"app": app, "urls": [f"https://h{number}.example.com/" for number in range(30)]}
        await eval(code, names)
        assert (await app.queue.stats(names["run"].id)).completed == 30

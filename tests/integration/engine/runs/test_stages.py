"""Records on their way through three stages: each stage counts each of them once, whatever dies.

The figures of a full size come with SHOAL_STAGE_RECORDS=10000 and -s.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter

import pytest

from shoal.cli.options.workers import read_job
from shoal.core.model import Task
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import OpenedRun
from shoal.queue.open import open_queue
from tests.cases import long
from tests.integration.engine.conftest import Witness
from tests.integration.engine.origin import Answer

RECORDS = int(os.environ.get("SHOAL_STAGE_RECORDS", "400"))
LONGEST = 150 + RECORDS / 20  # seconds
KILLS = 6
PARTS = 2  # enhanced tasks of one profile

STAGES = f"""
    people = Scraper("people", mode="distributed", rate=None, robots=False, retries=9)

    @people.step(fetch=None)
    async def initial(task: Task):
        number, site = task.payload["number"], task.payload["site"]
        yield {{"record": number}}
        yield Task(url=f"{{site}}/{{number}}", step="profile", key=str(number), payload={{"record": number}})

    @people.step
    async def profile(page: Page):
        record = page.payload["record"]
        yield {{"record": record, "title": page.text("title")}}
        for part in range({PARTS}):
            found = {{"record": record, "part": part}}
            yield Task(step="enhanced", key=f"{{record}}/{{part}}", payload=found)

    @people.step(fetch=None)
    def enhanced(task: Task):
        yield dict(task.payload)
"""


class Reaper:
    """Kills a worker now and then, whichever it is, and watches that no stage is half entered."""

    def __init__(self, kills=KILLS):
        self.pools, self.killed, self.halves, self._kills = {}, [], [], kills
        self._random = random.Random(2026)

    def saw(self, snapshot, pool):
        self.pools[id(pool)] = pool
        pids = [pid for each in self.pools.values() for pid in each.pids]
        if snapshot.stats.items and snapshot.stats.remaining and pids and len(self.killed) < self._kills:
            self.killed.append(self._random.choice(pids))
            os.kill(self.killed[-1], signal.SIGKILL)
        steps = snapshot.stats.steps
        if "enhanced" in steps and steps["enhanced"].tasks != PARTS * steps["profile"].completed:
            self.halves.append(steps)


async def staffed(bench, path, run_id, reaper, **options):
    """Let one pool work on the run until it is drained."""
    job = read_job(path, queue=bench.queue_url, allow_private=["127.0.0.0/8"], **options)
    async with open_queue(bench.queue_url) as queue:
        return await launch(OpenedRun(queue, await queue.run(run_id), job), Witness(on_saw=reaper.saw))


POOLS = {
    "dedicated": [
        {"steps": ["initial"], "workers": 1},
        {"steps": ["profile"], "workers": 2},
        {"steps": ["enhanced"], "workers": 1},
    ],
    "mixed": [{"steps": ["initial", "enhanced"], "workers": 1}, {"workers": 3}],
}


PAIRS = [
    ("postgres", "dedicated"),
    *long(("redis", "dedicated"), ("rabbitmq", "dedicated"), ("sqlite", "mixed")),
]


@pytest.mark.parametrize(("any_bench", "pools"), PAIRS, indirect=["any_bench"])
async def test_every_stage_counts_every_record_once_while_workers_are_killed(any_bench, origin, pools):
    origin.answer = lambda path: Answer(f"<title>{path}</title>", after=0.005)
    path, reaper = any_bench.write(STAGES), Reaper()
    async with open_queue(any_bench.queue_url) as queue:
        run = await queue.start_run("people", settings=read_job(path, queue="").scraper.run_settings())
        seeds = (Task(step="initial", payload={"number": n, "site": origin.url}) for n in range(RECORDS))
        await queue.enqueue(run.id, seeds)
        began = time.monotonic()
        async with asyncio.timeout(LONGEST):
            await asyncio.gather(
                *(staffed(any_bench, path, run.id, reaper, **options) for options in POOLS[pools])
            )
        seconds = time.monotonic() - began
        stats = await queue.stats(run.id)
        items = [item async for item in queue.items(run.id)]
    sys.stdout.write(
        f"\n{RECORDS:,} records, {stats.tasks:,} tasks in {seconds:.1f} s, {len(reaper.killed)} killed, "
        f"{sum(origin.visits.values()) - RECORDS} pages asked twice\n"
    )
    assert len(reaper.killed) >= 2 and not reaper.halves
    assert {name: counts.tasks for name, counts in stats.steps.items()} == {
        "initial": RECORDS,
        "profile": RECORDS,
        "enhanced": PARTS * RECORDS,
    }
    assert (stats.completed, stats.dead, stats.remaining) == ((2 + PARTS) * RECORDS, 0, 0)
    found = Counter((item.step, item.data["record"], item.data.get("part")) for item in items)
    expected = Counter(
        [
            *((step, n, None) for step in ("initial", "profile") for n in range(RECORDS)),
            *(("enhanced", n, part) for n in range(RECORDS) for part in range(PARTS)),
        ]
    )
    assert found == expected


NAIVE = """
    import asyncio
    from shoal import open_queue

    naive = Scraper("people", mode="distributed", rate=None, robots=False, retries=9)

    @naive.step(fetch=None)
    async def profile(task: Task):
        async with open_queue(task.payload["queue"]) as queue:
            for part in range(2):
                next = Task(step="enhanced", key=f"{task.key}/{part}")
                await queue.enqueue(task.payload["run"], [next])
                await asyncio.sleep(0.8)

    @naive.step(fetch=None)
    async def enhanced(task: Task):
        yield {"key": task.key}
"""


@pytest.mark.long
async def test_a_step_that_queues_the_next_stage_itself_is_seen_to_enter_it_by_halves(bench):
    path, reaper = bench.write(NAIVE), Reaper(kills=0)
    async with open_queue(bench.queue_url) as queue:
        run = await queue.start_run("people")
        payload = {"queue": bench.queue_url, "run": run.id}
        await queue.enqueue(run.id, [Task(step="profile", key=str(n), payload=payload) for n in range(4)])
        async with asyncio.timeout(60):
            await staffed(bench, path, run.id, reaper)
    assert reaper.halves


PATIENCE = """
    import asyncio, os, signal, time

    mixed = Scraper("mixed", rate=None, robots=False, retries=2, lease="30s")

    @mixed.step(fetch=None, lease="1s", retries=0)
    async def hasty(task: Task):
        {trouble}

    @mixed.step(fetch=None, retries=1)
    async def stubborn(task: Task):
        raise ValueError("never")

    @mixed.step(fetch=None)
    async def patient(task: Task):
        await asyncio.sleep(2.5)
        yield {{"done": True}}

    @mixed.step(fetch=None)
    async def common(task: Task):
        raise ValueError("never")
"""


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["await asyncio.sleep(60)", "os.kill(os.getpid(), signal.SIGKILL)"])
async def test_each_step_has_its_own_lease_and_its_own_retries(bench, trouble):
    seeds = [Task(step=step, key="k") for step in ("hasty", "stubborn", "patient", "common")]
    async with asyncio.timeout(60):
        summary = await bench.run(PATIENCE.format(trouble=trouble), seeds)
    letters = {letter.task.step: letter for letter in await bench.dead(summary.run.id)}
    attempts = {step: letter.attempts for step, letter in letters.items()}
    assert attempts == {"hasty": 1, "stubborn": 2, "common": 3}
    assert ("SIGKILL" if "kill" in trouble else "after 1 s") in letters["hasty"].error
    assert summary.snapshot.stats.completed == 1

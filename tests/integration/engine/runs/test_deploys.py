"""Rolling deploys: workers with different code on one run leave each other's steps alone."""

import asyncio
from functools import partial

from shoal.cli.options.workers import read_job
from shoal.core.model import Task
from shoal.fleet import left_to_others
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import OpenedRun
from shoal.fleet.status import progress
from shoal.queue.open import open_queue
from tests.integration.engine.conftest import Witness

SEEDS = 400
# The old step begins after the new workers have ended, else the old ones may have done all of it before.
DELAY = ", delay=timedelta(seconds=4)"
# The old code has a step that the new one has renamed; the new code has a further one, and other settings.
CODE = """
from datetime import timedelta

from shoal import Scraper, Task

shop = Scraper("shop", mode="distributed", rate=None, robots=False, {settings})

@shop.step(fetch=None)
async def listing(task: Task):
    yield Task(step="{stage}", key=task.payload["n"], payload=dict(task.payload), priority=1{delay})

@shop.step(fetch=None)
async def {stage}(task: Task):
    yield {{"stage": "{stage}"}}
    {more}

@shop.step(fetch=None)
async def {last}(task: Task):
    yield {{"stage": "{last}"}}
"""
OLD = CODE.format(settings="retries=1", stage="detail", last="price", more="", delay=DELAY)
NEW = CODE.format(
    settings="retries=3, lease='30s', timeout='5s'",
    delay="",
    stage="product",
    last="stock",
    more='yield Task(step="stock", key=task.key, payload=dict(task.payload))',
)


async def test_workers_with_old_and_new_code_run_the_steps_that_each_has(bench, monkeypatch):
    monkeypatch.setattr(left_to_others, "UNSERVED_SECONDS", 0.0)
    monkeypatch.setattr(progress, "MAX_POLL_INTERVAL_SECONDS", 0.5)
    jobs = {}
    for name, code in (("old", OLD), ("new", NEW)):
        (bench.folder / f"{name}.py").write_text(code)
        # Slow enough to be stopped before it has done all tasks by itself.
        slow = ["pause=5ms"] if name == "old" else []
        file = str(bench.folder / f"{name}.py")
        jobs[name] = read_job(file, queue=bench.queue_url, joins=True, changes=slow)

    async with open_queue(bench.queue_url) as queue:
        run = await queue.start_run("shop", settings=jobs["old"].scraper.run_settings())
        seeds = (Task(step="listing", payload={"n": str(n)}) for n in range(SEEDS))
        await queue.enqueue(run.id, seeds)

        async def work(name, stop=lambda snapshot, pool: None):
            return await launch(OpenedRun(queue, run, jobs[name]), Witness(on_saw=stop))

        def stop_after(count, snapshot, pool):
            if snapshot.stats.completed >= count and not pool.stops:
                pool.stop()

        async with asyncio.timeout(60):
            await work("old", partial(stop_after, 1))
            _, rolled_out = await asyncio.gather(work("old", partial(stop_after, 2)), work("new"))
            left = rolled_out.left_to_others
            rolled_back = await work("old")
        stats = await queue.stats(run.id)
    assert left.as_json()["steps"].keys() == {"detail"}, "the new code left the old step"
    steps = {name: counts.completed for name, counts in stats.steps.items()}
    assert steps["detail"] + steps["product"] == SEEDS and steps["stock"] == steps["product"], steps
    assert (stats.dead, stats.remaining) == (0, 0) and rolled_back.left_to_others is None

"""The machines of a cluster."""

import asyncio
from contextlib import AsyncExitStack

from msgspec.structs import replace

from shoal.core.model import Task
from shoal.fleet import cluster_roles
from shoal.fleet.cluster_roles import RoleObserver, WorkerHost
from shoal.fleet.job import Job
from shoal.fleet.lock import take_places
from shoal.fleet.run.pool import PoolExit
from shoal.scrape.scraper import Scraper

PAGES = Scraper("pages")
JOB = Job(scraper=PAGES, name="pages", reference="pages", queue_url="sqlite:///:memory:", workers=1)


@PAGES.step
def main(page): ...


class Heard(RoleObserver):
    def __init__(self):
        self.said = []

    def on_message(self, text):
        self.said.append(text)


class CrashingHost(WorkerHost):
    """A machine on which the step of the run `bad` kills every worker."""

    served: tuple = ()

    async def _host(self, job, run, lock, places):
        self.served += (run.id,)
        if run.id == "good":
            self.stop()
        return PoolExit(failures=["CrashLoop: it crashes"], is_crash_loop=run.id == "bad")


async def test_a_machine_gives_up_a_run_whose_step_kills_its_workers_and_serves_the_next(queue, monkeypatch):
    monkeypatch.setattr(cluster_roles, "DELAY_AFTER_FAILURE", 0.01)
    monkeypatch.setattr(cluster_roles, "POLL_INTERVAL_SECONDS", 0.01)
    heard = Heard()
    host = CrashingHost(queue, [JOB], heard)

    async def begin(name):
        run = await queue.start_run("pages", run_id=name)
        await queue.enqueue(run.id, [Task(url="https://a.example/1")])

    await begin("bad")
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(host.serve())
        while len(heard.said) < 2:
            await asyncio.sleep(0.01)
        await begin("good")
    assert host.served == ("bad", "good")
    assert heard.said[1] == (
        "This machine does not work on run bad any more: each attempt would cost more tasks. "
        "After a repair, run: shoal start pages --role worker --run bad"
    )


class HoldingHost(WorkerHost):
    """A machine that works until it is stopped, and records with how many workers."""

    began: tuple = ()

    async def _host(self, job, run, lock, places):
        self.began += (job.workers,)
        await self._stopping.wait()
        return PoolExit()


async def test_the_machines_of_a_cluster_start_no_more_workers_than_its_file_allows(queue, monkeypatch):
    monkeypatch.setattr(cluster_roles, "POLL_INTERVAL_SECONDS", 0.01)
    run = await queue.start_run("pages")
    await queue.enqueue(run.id, [Task(url="https://a.example/1")])
    job, heard = replace(JOB, workers=2), Heard()
    first, second, third = (HoldingHost(queue, [job], heard, count=3) for _ in range(3))
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for host in (first, second):
            group.create_task(host.serve())
            while not host.began:
                await asyncio.sleep(0.01)
        group.create_task(third.serve())
        while not heard.said:
            await asyncio.sleep(0.01)
        assert (first.began, second.began, third.began) == ((2,), (1,), ())
        other_step = replace(job, steps=["main"])
        async with AsyncExitStack() as stack:
            assert len(await take_places(stack, queue, other_step, 3)) == 2
        second.stop()
        while not third.began:
            await asyncio.sleep(0.01)
        first.stop(), third.stop()
    assert third.began == (1,)
    said = "3 workers are at work on scraper 'pages', as many as workers.count allows on all machines"
    assert heard.said == [said]

"""A run that may have only so many pages has exactly so many, however many workers are at it."""

import asyncio
import itertools
import textwrap
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from shoal import Scraper
from shoal.core.model import ZERO, Done, Release, RunSettings, RunState, Task
from shoal.queue.open import open_queue
from shoal.worker import page_limit
from shoal.worker.claims import TaskClaims
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.page_limit import PageLimit, blocks_topic, raise_page_limit, release_pages
from shoal.worker.partitions import PLAN, Holding, PartitionPlan, PartitionRole, topic_of
from tests.integration.engine.faults import scene
from tests.integration.engine.origin import Answer

ENDLESS = """
endless = Scraper("endless", rate=None, robots=False, max_pages=61, per_host=500, {more})

@endless.step
async def page(page: Page):
    for link in page.links():
        yield page.follow(link)
"""
MOST = 40
MINUTE = timedelta(minutes=1)


def two_ways_on(path):
    number = int(path.strip("/") or 0)
    return Answer(f"<a href='/{2 * number + 1}'>a</a><a href='/{2 * number + 2}'>b</a>", after=0.02)


async def test_many_workers_together_ask_for_as_many_pages_as_a_run_may_have(any_bench, origin):
    origin.answer = two_ways_on
    more = {"workers": 3, "batch": 8, "concurrency": 8}
    summary = await any_bench.run(ENDLESS.format(more=""), [f"{origin.url}/"], **more)
    stats = summary.snapshot.stats
    assert (stats.completed, stats.dead, stats.leased) == (61, 0, 0) and stats.remaining > 0
    assert sum(origin.visits.values()) == 61
    assert "budget" in summary.ending.reasons


@asynccontextmanager
async def claimers(url, count):
    """Yield workers, each with a queue of its own, and a run with more pages than it may have."""
    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(open_queue(url)) for _ in range(count)]
        run = await queues[0].start_run("pages", settings=RunSettings(host_delay=ZERO, per_host=10_000))
        await queues[0].enqueue(run.id, [Task(url=f"http://a.example/{n}") for n in range(5 * MOST)])
        yield run, [Claimer(queue, run, f"worker-{n}") for n, queue in enumerate(queues)]


class Claimer:
    """Claims pages, and does them or not."""

    def __init__(self, queue, run, name):
        self.queue, self._run, self._name = queue, run, name
        self._page_limit = PageLimit(queue, run.id, MOST)
        self._numbers = itertools.count(1)

    def claims(self):
        config = WorkerConfig(
            queue="", run_id=self._run.id, worker_id=self._name, scraper="pages", lease=MINUTE, memory=1
        )
        return TaskClaims(self.queue, self._run, config, None, max_pages=MOST)

    async def work(self, claim):
        """Claim until nothing is left; every fifth page is handed back."""
        while await self._page_limit.remaining() > 0:
            leases = await claim(self)
            await self.queue.settle(
                [Done(lease) if next(self._numbers) % 5 else Release(lease) for lease in leases]
            )

    async def in_turn(self):
        async with self._page_limit.lock() as fence:
            return await self._claimed(await self._page_limit.remaining(), fence)

    async def at_once(self):
        return await self._claimed(await self._page_limit.remaining(), None)

    async def _claimed(self, left, fence):
        await asyncio.sleep(0.02)  # the answer is on its way
        if left <= 0:
            return []
        grant = await self.queue.claim(
            self._name, run_id=self._run.id, limit=min(7, left), lease=MINUTE, fence=fence
        )
        return grant.leases


async def test_no_two_workers_are_given_the_same_pages_of_what_is_left(any_bench):
    async with claimers(any_bench.queue_url, 5) as (run, workers), asyncio.timeout(60):
        await asyncio.gather(*(worker.work(Claimer.in_turn) for worker in workers))
        assert (await workers[0].queue.stats(run.id)).completed == MOST


async def test_without_turns_the_same_workers_do_more_than_they_may(bench):
    async with claimers(bench.queue_url, 5) as (run, workers), asyncio.timeout(60):
        await asyncio.gather(*(worker.work(Claimer.at_once) for worker in workers))
        assert (await workers[0].queue.stats(run.id)).completed > MOST


async def test_workers_that_claim_from_blocks_do_as_many_pages_as_a_run_may_have(bench, monkeypatch):
    monkeypatch.setattr(page_limit, "BLOCK_SHARE", 6)
    async with claimers(bench.queue_url, 5) as (run, workers), asyncio.timeout(60):
        claims = [worker.claims() for worker in workers]
        used = await asyncio.gather(*(work_from_blocks(*pair) for pair in zip(workers, claims, strict=True)))
        assert (await workers[0].queue.stats(run.id)).completed == MOST
        assert any(used)


async def work_from_blocks(worker, claims):
    """Claim a page or two until none is left; return whether a block was used."""
    had_block = False

    async def claim(_):
        nonlocal had_block
        claimed = await claims.claim(2)
        had_block = had_block or claims._page_limit.block is not None
        return claimed.grant.leases

    await worker.work(claim)
    return had_block


@pytest.mark.parametrize("more", [MOST + 5, None])
async def test_a_worker_that_has_not_read_a_raised_limit_goes_on_to_it(bench, more):
    async with claimers(bench.queue_url, 1) as (run, (worker,)), asyncio.timeout(30):
        claims, done = worker.claims(), 0
        await raise_page_limit(worker.queue, run.id, more)
        while await claims.end_at_budget() is not None:
            leases = (await claims.claim(7)).grant.leases
            await worker.queue.settle([Done(lease) for lease in leases])
            if (done := done + len(leases)) >= 5 * MOST:
                break
        assert done == (more or 5 * MOST)
        assert (await worker.queue.run(run.id)).reason == (f"max_pages={more} reached" if more else "")


async def test_a_limit_that_is_raised_at_the_moment_when_a_run_ends_at_it_takes_effect(bench, monkeypatch):
    async with claimers(bench.queue_url, 1) as (run, (worker,)), asyncio.timeout(30):
        used, finish = PageLimit(worker.queue, run.id, 0), worker.queue.finish

        async def raise_and_finish(run_id, reason):
            await raise_page_limit(worker.queue, run_id, MOST)
            await finish(run_id, reason)

        monkeypatch.setattr(worker.queue, "finish", raise_and_finish)
        assert not await used.end_if_used()
        assert (await worker.queue.run(run.id)).state is RunState.RUNNING


KILLED = """
    import os
    import signal
    from pathlib import Path
    from shoal.worker import page_limit

    acquire, killed = page_limit.PageLimit._acquire, Path({folder!r}) / "killed"
    page_limit.LOCK_TTL *= 6

    async def acquire_and_end(self):
        note = await acquire(self)
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return note

    page_limit.PageLimit._acquire = acquire_and_end
"""


async def test_a_worker_that_is_killed_with_the_lock_holds_nobody_up(bench, origin, monkeypatch):
    monkeypatch.setattr(page_limit, "LOCK_TTL", page_limit.LOCK_TTL)  # the scraper's file changes it
    code = textwrap.dedent(KILLED).format(folder=str(bench.folder)) + ENDLESS.format(more="")
    origin.answer = two_ways_on
    async with asyncio.timeout(45):  # less than the lock lasts
        summary = await bench.run(code, [f"{origin.url}/"], workers=2)
    assert summary.snapshot.stats.completed == 61 and (bench.folder / "killed").exists()


async def test_what_a_dead_worker_holds_of_the_limit_is_released_and_what_others_hold_is_not(bench):
    async with (
        claimers(bench.queue_url, 1) as (run, (worker,)),
        asyncio.timeout(9),
    ):
        dead, other = PageLimit(worker.queue, run.id, MOST, "dead"), PageLimit(worker.queue, run.id, MOST)
        for note in (await dead._acquire(), None):
            await worker.queue.write_notes(blocks_topic(run.id), {"dead": b"9"})
            await release_pages(worker.queue, run.id, "another")
            assert bool(await worker.queue.notes(page_limit.TOPIC, [run.id])) is (note is not None)
            assert await other.remaining() == MOST - 9
            await release_pages(worker.queue, run.id, "dead")
            assert await other.remaining() == MOST
        async with other.lock():
            await release_pages(worker.queue, run.id, "dead")
            assert await worker.queue.notes(page_limit.TOPIC, [run.id])


async def test_a_block_saves_the_lock_and_is_free_again_when_its_worker_reserves_no_more(bench, monkeypatch):
    monkeypatch.setattr(page_limit, "BLOCK_SHARE", 4)
    async with claimers(bench.queue_url, 2) as (_, (first, second)), asyncio.timeout(30):
        claims = first.claims()
        leases = [*(await claims.claim(2)).grant.leases]
        block = claims._page_limit.block
        assert block.left == MOST // 4 - 2
        async with second._page_limit.lock():
            assert await second._page_limit.remaining() == MOST - MOST // 4 - len(leases)
            leases += (await claims.claim(2)).grant.leases  # it needs no lock
        block.ends = 0.0
        monkeypatch.setattr(page_limit, "BLOCK_SHARE", 100)
        leases += (await claims.claim(2)).grant.leases
        assert await second._page_limit.remaining() == MOST - len(leases) == MOST - 6


async def test_who_sleeps_through_the_end_of_its_turn_is_handed_nothing(any_bench, monkeypatch):
    monkeypatch.setattr(page_limit, "LOCK_TTL", timedelta(seconds=0.2))
    async with claimers(any_bench.queue_url, 2) as (run, (sleeper, other)), asyncio.timeout(30):
        async with sleeper._page_limit.lock() as old, other._page_limit.lock() as new:
            late = await sleeper.queue.claim("s", run_id=run.id, limit=5, lease=MINUTE, fence=old)
            assert late.outdated and not late.leases
        again = await other.queue.claim("o", run_id=run.id, limit=5, lease=MINUTE, fence=new)
        assert again.outdated


async def test_with_a_plan_who_sleeps_through_the_end_of_its_turn_starts_nothing_of_what_it_is_handed(
    bench, monkeypatch
):
    monkeypatch.setattr(page_limit, "LOCK_TTL", timedelta(seconds=0.2))
    few = Scraper("few", rate=None, robots=False, max_pages=3)
    few.step(fetch=None)(a_job)
    tasks = [Task(payload={"n": n}, step="a_job") for n in range(10)]

    async def sleep_through(*args, fence=None, **options):
        if not fence:
            return
        del worker.queue.before["claim"]
        while await worker.queue.notes(page_limit.TOPIC, [worker.run.id]):
            await asyncio.sleep(0.02)
        grant = await queue.claim("another", run_id=worker.run.id, limit=3, lease=MINUTE)
        await queue.settle([Done(lease) for lease in grant.leases])

    async with (
        asyncio.timeout(30),
        open_queue(bench.queue_url) as queue,
        scene(queue, few, tasks=tasks, lease=MINUTE, sharing=PartitionRole()) as worker,
    ):
        plan = PartitionPlan(holdings={"": Holding(workers=["worker-1"])})
        await queue.write_notes(topic_of(worker.run.id), {PLAN: msgspec.json.encode(plan)})
        worker.queue.before["claim"] = sleep_through
        assert await worker.worker.run() == "budget"
        stats = await queue.stats(worker.run.id)
        assert (stats.completed, stats.pending, stats.leased) == (3, 7, 0)


async def a_job(task: Task):
    yield {"n": task.payload["n"]}

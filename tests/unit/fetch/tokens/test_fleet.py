"""A fleet that shares tokens, in simulated time: never a request too many, and hardly one too few."""

import asyncio
import os

import pytest

from shoal.core.errors import NotNow
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.rate_limit_headers import rate_limit_in
from shoal.fetch.tokens.token import TokenSource
from tests.cases import long
from tests.unit.fetch.tokens.warp import FarQueue, Host, Jobs, chance_of, warped

SEEDS = [0, *long(*range(1, int(os.environ.get("SHOAL_SEEDS", "2"))))]
TOKENS = ["alpha", "beta", "gamma", "delta", "epsilon"]


async def worker(loop, pool, host, jobs, concurrency=16):
    async def hand():
        while True:
            if not jobs.take(loop.time()):
                due = jobs.next_due()
                if due is None:
                    return
                await asyncio.sleep(max(0.01, due - loop.time()))
                continue
            try:
                permit = await pool.acquire()
            except NotNow as wait:
                jobs.put_off(loop.time() + wait.after.total_seconds())
                continue
            response = await host.ask(permit.token.text)
            if response.status == 429:
                await pool.pause(permit, rate_limit_in(response, loop.moment()))
                jobs.put_off(loop.time())
            else:
                await pool.finish(permit, rate_limit_in(response, loop.moment()))

    await asyncio.gather(*(hand() for _ in range(concurrency)))


async def fleet(loop, seed, *, workers=8, pages=2_000, share=True, **host):
    chance = chance_of(seed)
    queue, api, jobs = FarQueue(loop, chance), Host(loop, chance, **host), Jobs(pages)
    pools = []
    for _ in range(workers):
        board = queue if share else FarQueue(loop, chance)
        pools.append(await TokenPool.open(board, TokenSource(given=TOKENS), run_id="r", clock=loop.time))
    await asyncio.gather(*(worker(loop, pool, api, jobs) for pool in pools))
    await asyncio.gather(*(pool.close() for pool in pools))
    return api, queue


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_request_comes_too_many_and_the_budget_is_used(seed, is_fixed):
    api, queue = warped(lambda loop: fleet(loop, seed, is_fixed=is_fixed))
    assert api.finish == 0
    assert api.requests == 2_000
    assert len(api.shares()) >= 2
    assert sum(api.shares()) / len(api.shares()) >= 0.95
    # Reserved in blocks: fewer round trips than requests, though the budgets are small and the workers many.
    assert queue.calls["swap_note"] < 2_000


def test_workers_who_share_nothing_go_over():
    api, _ = warped(lambda loop: fleet(loop, 1, share=False, pages=500))
    assert api.finish > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_a_host_that_answers_slowly_across_its_windows_gets_no_request_too_many(seed):
    api, _ = warped(lambda loop: fleet(loop, seed, latency=4.0, window=7.0, workers=4, pages=800))
    assert api.finish == 0
    assert api.requests == 800


def test_a_small_budget_is_used_to_its_end_by_many_workers():
    api, _ = warped(lambda loop: fleet(loop, 5, limit=7, workers=20, pages=200))
    assert api.finish == 0
    assert sum(api.shares()) / len(api.shares()) >= 0.95


def test_a_host_that_tells_nothing_is_asked_without_reserving():
    api, queue = warped(lambda loop: fleet(loop, 3, tells=False, limit=10_000))
    assert api.requests == 2_000
    assert queue.calls["swap_note"] < 200

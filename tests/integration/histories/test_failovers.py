"""Histories in which a stale replica takes over: those that hold, and one that the judge must convict."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from shoal.queue.open import open_queue
from tests.conftest import or_skip
from tools.chaos.stores import open_store
from tools.histories.clients import Clock
from tools.histories.failovers import Director, of_store
from tools.histories.judge import figures, judge
from tools.histories.play import Cast, play

pytestmark = pytest.mark.long
PATIENCE = timedelta(minutes=2)
CAST = Cast(seed=7, most_waiting=60, seconds=4.0, clients=4)


@pytest.fixture
def stage(tmp_path):
    """Open a store by name, with a thread that outlives the servers which are started in it."""
    with ExitStack() as stack:
        thread = stack.enter_context(ThreadPoolExecutor(1))
        yield lambda name: (or_skip(lambda: stack.enter_context(open_store(name, tmp_path))), thread)


async def history(store, thread, cast=CAST, *, tell=lambda told: told, failovers=2):
    """Play a history on a store; `tell` changes what the judge is told of each failover."""
    fail_over = of_store(store)

    async def open_client(number):
        return await open_queue(store.url, patience=PATIENCE)

    director = Director(lambda let_miss: tell(fail_over(let_miss)), failovers, random.Random(7), thread)
    return await play(open_client, cast, director)


# Each failover of PostgreSQL copies the whole database for the next one.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "clock", "failovers"), [("redis", Clock.EXACT, 2), ("postgresql", Clock.BEGUN, 1)]
)
async def test_what_a_stale_replica_has_missed_is_lost_and_nothing_else(stage, name, clock, failovers):
    record = await history(*stage(name), replace(CAST, clock=clock), failovers=failovers)
    assert judge(record) == {}
    counted = figures(record)
    assert counted.failovers == failovers
    assert min(counted.completed, counted.redone) > 0

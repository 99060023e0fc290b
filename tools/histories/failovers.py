"""Failovers during a history: a replica that has missed the last moments takes its primary's place."""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from shoal.core.model import Done, Fate
from tools.chaos.stores import Store
from tools.histories.clients import now
from tools.histories.record import Failover, Record

LetMiss = Callable[[datetime], None]  # returns when the replica has missed enough since that moment
FailOver = Callable[[LetMiss], Failover | None]  # None where it cannot begin
MISSED = (0.2, 1.2)  # seconds, from and to
MIN_LOST, LOSS_TIMEOUT = 3, 20.0  # completed tasks that a replica misses at least, unless that takes too long
TRIES = 12  # a replica has five seconds to catch up, each time


def of_store(store: Store) -> FailOver:
    """Return what lets the replica of a store take over after it has missed something."""

    def fail_over(let_miss: LetMiss) -> Failover | None:
        synced = now()
        promote = store.conditions["failover"].begin()
        cut_by = now()
        if promote is None:
            return None
        let_miss(cut_by)
        promote()
        assert store.moved_at, "the address leads where it led before"
        return Failover(synced, cut_by, store.moved_at)

    return fail_over


@dataclass
class Director:
    """Lets a number of failovers happen, spread over a history."""

    fail_over: FailOver
    number: int
    chance: random.Random
    # It lives as long as the store: a server ends with the thread that has started it.
    thread: ThreadPoolExecutor

    async def work(self, record: Record, seconds: float) -> None:
        """Let one happen at a time; raises RuntimeError where the replica never catches up."""
        loop, begun = asyncio.get_running_loop(), time.monotonic()
        for turn in range(self.number):
            due = begun + seconds * (turn + 0.5) / self.number
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            let_miss = partial(_let_miss, record, self.chance.uniform(*MISSED))
            for _ in range(TRIES):
                happened = await loop.run_in_executor(self.thread, self.fail_over, let_miss)
                if happened:
                    break
            else:
                raise RuntimeError("the replica does not catch up with its primary")
            record.failovers.append(happened)


def _let_miss(record: Record, seconds: float, since: datetime) -> None:
    time.sleep(seconds)
    give_up = time.monotonic() + LOSS_TIMEOUT
    while _completed(record, since) < MIN_LOST and time.monotonic() < give_up:
        time.sleep(0.02)


def _completed(record: Record, since: datetime) -> int:
    """Count the tasks that were completed since a moment; the clients go on meanwhile."""
    return sum(
        told.fate is Fate.ACCEPTED and isinstance(told.outcome, Done) and told.sent > since
        for one in record.holdings[-500:]
        for told in one.settlements[:]
    )

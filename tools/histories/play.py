"""One history: a producer and several clients on one store, then a drain, then what the store says."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex

from shoal.core.model import RunSettings
from shoal.queue.contract import Queue
from tools.histories.clients import MOST_WAITING, Client, Clock, Producer, now
from tools.histories.failovers import Director
from tools.histories.record import End, Record

DRAIN_TIMEOUT = timedelta(seconds=90)
FAST = RunSettings(host_delay=timedelta(milliseconds=40), per_host=3, max_attempts=4)
SLOW = RunSettings(host_delay=timedelta(milliseconds=110), per_host=2, max_attempts=6)

Open = Callable[[int], Awaitable[Queue]]


@dataclass(frozen=True)
class Cast:
    """Who takes part, and for how long."""

    seed: int
    seconds: float
    clients: int = 6
    clock: Clock = Clock.EXACT
    most_waiting: int = MOST_WAITING  # tasks of a run
    drain_timeout: timedelta = DRAIN_TIMEOUT
    liars: int = 0  # clients that send a request and say that they did not: for the judge's own test


async def play(open_client: Open, cast: Cast, director: Director | None = None) -> Record:
    """Let a history happen; `open_client` opens the queue for the client of a number.

    It lasts until the failovers of the director are over, though its seconds may be.
    """
    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(await open_client(number)) for number in range(cast.clients + 1)
        ]
        record = await _start(queues[-1])
        deadline = time.monotonic() + cast.seconds
        clients = [_client(queues, number, record, cast) for number in range(cast.clients)]
        producer = Producer(queues[-1], record, random.Random(f"{cast.seed} producer"), cast.most_waiting)
        workers = [producer.work, *(client.work for client in clients)]
        async with asyncio.TaskGroup() as group:
            failing = group.create_task(director.work(record, cast.seconds)) if director else None
            for work in workers:
                group.create_task(
                    work(lambda: time.monotonic() > deadline and (not failing or failing.done()))
                )
        give_up = now() + cast.drain_timeout
        record.is_drained = all(await asyncio.gather(*(client.drain(give_up) for client in clients)))
        for run_id in record.runs:
            record.ends[run_id] = await _end(queues[-1], run_id)
        return record


async def _start(queue: Queue) -> Record:
    # Histories on one store share its hosts, so that each finds the starts of the one before.
    name = f"history-{token_hex(4)}"
    settings = {f"{name}-fast": FAST, f"{name}-slow": SLOW}
    return Record(
        {one: await queue.start_run(name, settings=set_, run_id=one) for one, set_ in settings.items()}
    )


def _client(queues: list[Queue], number: int, record: Record, cast: Cast) -> Client:
    own = [queues[number], queues[(number + 1) % cast.clients]]
    return Client(
        f"client-{number}",
        own,
        record,
        random.Random(f"{cast.seed} {number}"),
        clock=cast.clock,
        is_liar=number < cast.liars,
    )


async def _end(queue: Queue, run_id: str) -> End:
    await queue.reclaim()
    items = [(item.task_id, item.data["token"]) async for item in queue.items(run_id)]
    dead = [letter.id async for letter in queue.dead(run_id)]
    return End(await queue.stats(run_id), items, dead)

"""What it takes to enter the race: a queue that can be filled and emptied, and how both are timed."""

import asyncio
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tools.bench.children import run_processes
from tools.bench.draining import pace
from tools.bench.peers import foreign
from tools.bench.peers.home import python_of
from tools.bench.peers.order import Order
from tools.bench.report import Bar
from tools.bench.stores import Store
from tools.bench.talk import say

Choice = Mapping[str, Any]
STUMBLES = 2  # heats in which a peer stands still, as some do now and then, before it is given up

_numbers = count(1)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


@dataclass(frozen=True, slots=True)
class Heat:
    """Jobs per second done and put in, the processor seconds of workers and server for each, and the load."""

    rate: float
    enqueue: float
    client: float
    server: float
    load: float = field(default_factory=_load)

    @property
    def cpu(self) -> float:
        """Return the processor seconds of both."""
        return self.client + self.server


@dataclass(frozen=True, slots=True)
class Entrant(ABC):
    """One queue; the likeliest choice comes first, and the guess at its speed is a low one."""

    name: str
    module: str
    guess: float
    choices: Sequence[Choice] = ({},)
    bar: Bar | None = None

    @abstractmethod
    async def run(self, store: Store, workers: int, jobs: int, choice: Choice) -> Heat:
        """Fill a new queue, have it emptied, and make sure that every job was done once."""

    def check(self, done: int, jobs: int) -> None:
        """Make sure that no job was lost or done twice on the way to a good figure."""
        assert done == jobs, f"{self.name} did {done:,} of {jobs:,} jobs"


class Neighbour(Entrant):
    """A queue that lives in our environment; its module has a `load` and a `work`."""

    async def run(self, store: Store, workers: int, jobs: int, choice: Choice) -> Heat:
        async with store.room() as address:
            (loaded,) = await run_processes(1, f"{self.module}:load", address=address, jobs=jobs)
            store.rest(address)
            before = store.cpu()
            results = await run_processes(workers, f"{self.module}:work", address=address, **choice)
            server = store.cpu() - before
        self.check(sum(result["tasks"] for result in results), jobs)
        client = sum(result["cpu"] for result in results)
        return Heat(pace(results), jobs / loaded["seconds"], client / jobs, server / jobs)


@dataclass(frozen=True, slots=True)
class Foreigner(Entrant):
    """A queue that lives in an environment of its own, and is run by its own command line."""

    home: str = "bench-queue"

    async def run(self, store: Store, workers: int, jobs: int, choice: Choice) -> Heat:
        python = await asyncio.to_thread(python_of, self.home)
        for _ in range(STUMBLES):
            try:
                return await self._run(python, store, workers, jobs, choice)
            except foreign.PeerFailed as error:
                say(f"once more, for {str(error).splitlines()[0]}")
        return await self._run(python, store, workers, jobs, choice)

    async def _run(self, python: Path, store: Store, workers: int, jobs: int, choice: Choice) -> Heat:
        async with store.room() as address:
            with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
                order = self._order(address, folder, workers, jobs, choice)
                seconds = await foreign.fill(python, order)
                store.rest(address)
                before = store.cpu()
                work = await foreign.work(python, order)
                server = store.cpu() - before
            await store.forget(order.queue)
        self.check(work.jobs, jobs)
        return Heat(work.jobs / work.seconds, jobs / seconds, work.cpu / jobs, server / jobs)

    def _order(self, address: str, folder: str, workers: int, jobs: int, choice: Choice) -> Order:
        return Order(
            peer=self.module,
            address=address.partition("?")[0],  # without where our own queue keeps its state
            queue=f"bench-{next(_numbers)}",
            folder=folder,
            jobs=jobs,
            workers=workers,
            choice=choice,
        )

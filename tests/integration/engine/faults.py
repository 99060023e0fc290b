"""A worker in the test's own process, on a queue whose verbs fail when a test says so, and a made-up web."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.worker.attempts import ProcessorTools
from shoal.worker.ipc.protocol import LeasesClaimed, LeasesSettled, SupervisorChannel, WorkerConfig
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.slots import MAX_PAGE_BYTES
from shoal.worker.turns import HostTurns
from shoal.worker.worker import Worker

LEASE = timedelta(seconds=2)


@dataclass
class Fault:
    """What a verb raises, and how often; `hits` says of which calls."""

    error: Callable[[], Exception]
    times: float = float("inf")
    hits: Callable[..., bool] = lambda *args, **options: True


class FaultyQueue:
    """A queue in front of another one: some of its verbs fail, all of them are counted."""

    def __init__(self, queue):
        self._queue = queue
        self.faults: dict[str, Fault] = {}
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[..., Awaitable[None]]] = {}  # what happens first
        self.failed = asyncio.Event()  # a fault was met
        self.on_fault: Callable[[int], None] = lambda number: None
        self._met = 0

    def __getattr__(self, name):
        found = getattr(self._queue, name)
        if asyncio.iscoroutinefunction(found):
            return self._watched(name, found)
        return self._streamed(name, found) if name == "items" else found

    def _streamed(self, name, found):
        async def stream(*args, **options):
            await self._watched(name, _nothing)(*args, **options)
            async for one in found(*args, **options):
                yield one

        return stream

    def _watched(self, name, found):
        async def call(*args, **options):
            self.calls[name] += 1
            if name in self.before:
                await self.before[name](*args, **options)
            fault = self.faults.get(name)
            if fault and fault.times > 0 and fault.hits(*args, **options):
                fault.times -= 1
                self._met += 1
                self.failed.set()
                self.on_fault(self._met)
                raise fault.error()
            return await found(*args, **options)

        return call


async def _nothing(*args, **options):
    pass


class Web:
    """A fetcher whose hosts respond when they are told to; it knows how many requests are in flight."""

    def __init__(self, seconds=0.0):
        self.seconds, self.in_flight, self.most = seconds, 0, 0
        self.asked: Counter[str] = Counter()

    async def fetch(self, request):
        self.asked[request.url] += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        return Response(url=request.url, status=200, body=b"<title>A page</title>")

    async def close(self):
        pass


class Ledger(SupervisorChannel):
    """What a worker's supervisor would know: which leases it holds, and how many it has claimed."""

    def __init__(self):
        super().__init__(None)
        self.in_hand = {}
        self.claimed = 0

    def send(self, message):
        match message:
            case LeasesClaimed(first=first, leases=leases):
                self.in_hand.update(enumerate(leases, first))
                self.claimed += len(leases)
            case LeasesSettled(numbers=numbers):
                for number in numbers:
                    del self.in_hand[number]


@dataclass
class Scene:
    """A worker, what it works with, and the run that it works on."""

    queue: FaultyQueue
    run: object
    web: Web
    worker: Worker
    ledger: Ledger = field(default_factory=Ledger)

    async def items(self):
        return [item.data async for item in self.queue.items(self.run.id)]


@asynccontextmanager
async def scene(
    queue, scraper, urls=(), *, tasks=(), web=None, lease=LEASE, run=None, worker_id="worker-1", **options
):
    """Yield a worker that is ready to run, with a run that has these tasks."""
    faulty, web, ledger = FaultyQueue(queue), web or Web(), Ledger()
    if run is None:
        run = await queue.start_run(scraper.name, settings=scraper.run_settings())
        step = scraper.first.name
        await queue.enqueue(run.id, [*(Task(url=url, step=step) for url in urls), *tasks])
    file = make_file()
    markers = StepMarkers(file)
    os.close(file)
    with ThreadPoolExecutor(4) as threads:
        worker = Worker(
            faulty,
            run,
            scraper,
            ProcessorTools({"http": web}, None, threads, markers, turns=HostTurns(faulty)),
            WorkerConfig(
                queue="",
                run_id=run.id,
                worker_id=worker_id,
                scraper=scraper.name,
                lease=lease,
                memory=MAX_PAGE_BYTES,
                **options,
            ),
            ledger,
        )
        extending = asyncio.create_task(_extend(queue, ledger, lease))
        try:
            yield Scene(faulty, run, web, worker, ledger)
        finally:
            extending.cancel()
            markers.close()


async def _extend(queue, ledger, lease):
    """Extend the leases of the worker, as a supervisor does."""
    while True:
        await asyncio.sleep(lease.total_seconds() / 3)
        await queue.extend(list(ledger.in_hand.values()), lease=lease)

"""The same number of workers, the same server, jobs that do nothing: who gets through more of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.bench.crew import crew
from tools.bench.draining import pace
from tools.bench.report import Bar, Figure, Figures, at_least, many
from tools.bench.scale import Scale
from tools.bench.stores import Store
from tools.bench.talk import say

WORKERS = (1, 2)
TRIAL = 0.25  # of the seconds that a heat must last
MARGIN = 1.5
TRIES = 4

Choice = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entrant:
    """One queue, the ways to run it that may suit it, the likeliest first, and a guess at its speed."""

    name: str
    module: str
    guess: float
    choices: tuple[Choice, ...] = ({},)
    bar: Bar | None = None


US = Entrant("shoal", "tools.bench.peers.shoal", guess=8_000, choices=({"loops": 1}, {"loops": 3}))
PEERS = (
    Entrant(
        "pgqueuer",
        "tools.bench.peers.pgqueuer",
        guess=3_000,
        choices=(
            {"driver": "connection", "managers": 1},
            {"driver": "pool", "managers": 1},
            {"driver": "connection", "managers": 5},
        ),
        bar=at_least(2.5),
    ),
    Entrant(
        "procrastinate",
        "tools.bench.peers.procrastinate",
        guess=400,
        choices=tuple({"concurrency": concurrency} for concurrency in (10, 1, 30)),
        bar=at_least(10),
    ),
    Entrant("naive SKIP LOCKED loop", "tools.bench.peers.naive", guess=1_500),
)


@dataclass(frozen=True, slots=True)
class Heat:
    """Jobs per second, and the processor seconds of workers and server for each."""

    rate: float
    client: float
    server: float

    @property
    def cpu(self) -> float:
        """Return the processor seconds of both."""
        return self.client + self.server


@dataclass(slots=True)
class Record:
    """What an entrant has shown so far with a number of workers."""

    entrant: Entrant
    choice: Choice
    workers: int
    expected: float  # jobs per second
    heats: list[Heat] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the best rate of all heats."""
        return max(heat.rate for heat in self.heats)

    @property
    def cheapest(self) -> Heat:
        """Return the heat that took the least processor time."""
        return min(self.heats, key=lambda heat: heat.cpu)

    @property
    def name(self) -> str:
        """Say who it is."""
        return f"{self.entrant.name}, {many(self.workers, 'worker')}"

    def figures(self) -> list[Figure]:
        """Return the best that was seen."""
        how = ", ".join(f"{name} {value}" for name, value in self.choice.items())
        name = f"{self.name} ({how})" if how else self.name
        cheapest = self.cheapest
        times = {"client_us": cheapest.client * 1e6, "server_us": cheapest.server * 1e6}
        rates = [round(heat.rate) for heat in self.heats]
        return [
            Figure(name, self.rate, "jobs/s", None, {**self.choice, "rates": rates}),
            Figure(f"{self.name}, CPU", cheapest.cpu * 1e6, "us/job", None, times),
        ]


async def race(store: Store, scale: Scale) -> Figures:
    """Let everybody run in turn, several times, and compare the best of each."""
    records = [record for entrant in (US, *PEERS) for record in await _trials(store, scale, entrant)]
    for number in range(1, scale.peer_rounds + 1):
        for record in records:
            say(f"round {number}: {record.name}")
            record.heats.append(await _heat(store, record, scale.peer_seconds))
    for figure in (figure for record in records for figure in record.figures()):
        yield figure
    for record in records[len(WORKERS) :]:
        ours = next(ours for ours in records if ours.workers == record.workers)
        for figure in _ratios(record, ours):
            yield figure


async def _trials(store: Store, scale: Scale, entrant: Entrant) -> list[Record]:
    """Find out which way of running it suits the entrant best, with each number of workers."""
    best = []
    choices = entrant.choices if scale.peer_trials else entrant.choices[:1]
    for workers in WORKERS:
        records = [Record(entrant, choice, workers, entrant.guess) for choice in choices]
        for record in records:
            say(f"trial: {record.name} {dict(record.choice) or ''}")
            heat = await _run(store, record, round(entrant.guess * scale.peer_seconds * TRIAL))
            record.expected = heat.rate
        best.append(max(records, key=lambda record: record.expected))
    return best


async def _heat(store: Store, record: Record, seconds: float) -> Heat:
    """Run once, with enough jobs to last so many seconds."""
    for _ in range(TRIES):
        jobs = round(record.expected * seconds * MARGIN)
        heat = await _run(store, record, jobs)
        record.expected = max(record.expected, heat.rate)
        if jobs / heat.rate >= seconds:
            break
    return heat


async def _run(store: Store, record: Record, jobs: int) -> Heat:
    module = record.entrant.module
    with store.room() as address:
        await crew(1, f"{module}:load", address=address, jobs=jobs)
        store.rest(address)
        before = store.cpu()
        results = await crew(record.workers, f"{module}:work", address=address, **record.choice)
        server = store.cpu() - before
    done = sum(result["tasks"] for result in results)
    assert done == jobs, f"{record.entrant.name} did {done:,} of {jobs:,} jobs"
    client = sum(result["cpu"] for result in results)
    return Heat(pace(results), client / jobs, server / jobs)


def _ratios(peer: Record, ours: Record) -> list[Figure]:
    return [
        Figure(f"shoal : {peer.name}", ours.rate / peer.rate, "x", peer.entrant.bar),
        Figure(f"shoal : {peer.name}, by CPU", peer.cheapest.cpu / ours.cheapest.cpu, "x"),
    ]

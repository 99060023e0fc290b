"""The same number of workers, the same server, jobs that do nothing: who gets through more of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from tools.bench.peers.entrant import Choice, Entrant, Heat
from tools.bench.peers.entrants import entrants
from tools.bench.report import Figure, Figures, many
from tools.bench.scale import Scale
from tools.bench.stores import Store
from tools.bench.talk import say

TRIALS = 2  # of each choice, in turn, so that a bad moment of the machine does not decide
TRIAL = 0.5  # of the seconds that a heat must last
MARGIN = 1.3


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
        """Return the jobs per second of the heat in the middle."""
        return median(heat.rate for heat in self.heats)

    @property
    def enqueue(self) -> float:
        """Return the jobs per second that were put in, of the heat in the middle."""
        return median(heat.enqueue for heat in self.heats)

    @property
    def cpu(self) -> float:
        """Return the processor seconds of a job, of the heat in the middle."""
        return median(heat.cpu for heat in self.heats)

    @property
    def name(self) -> str:
        """Say who it is."""
        return f"{self.entrant.name}, {many(self.workers, 'worker')}"

    def figures(self) -> list[Figure]:
        """Return what was seen, every heat of it in the details."""
        how = ", ".join(f"{name} {value}" for name, value in self.choice.items())
        name = f"{self.name} ({how})" if how else self.name
        rates = {"rates": [round(heat.rate) for heat in self.heats], "load": [h.load for h in self.heats]}
        times = {
            "client_us": [round(heat.client * 1e6) for heat in self.heats],
            "server_us": [round(heat.server * 1e6) for heat in self.heats],
        }
        return [
            Figure(name, self.rate, "jobs/s", None, {**self.choice, **rates}),
            Figure(f"{self.name}, CPU", self.cpu * 1e6, "us/job", None, times),
            Figure(f"{self.name}, enqueue", self.enqueue, "jobs/s"),
        ]


async def race(store: Store, scale: Scale) -> Figures:
    """Let everybody run in turn, several times, and compare them round by round."""
    ours, *peers = [await _entered(store, scale, entrant) for entrant in entrants(store.name)]
    records = [record for group in zip(ours, *peers, strict=True) for record in group]
    for number in range(1, scale.peer_rounds + 1):
        for record in records:
            say(f"round {number} of {scale.peer_rounds}: {record.name}")
            record.heats.append(await _heat(store, scale, record))
    for figure in (figure for record in records for figure in record.figures()):
        yield _on(store, figure)
    for group in peers:
        for figure in (figure for pair in zip(ours, group, strict=True) for figure in ratios(*pair)):
            yield _on(store, figure)


def ratios(ours: Record, peer: Record) -> list[Figure]:
    """Compare two records round by round, so that both have seen the same weather."""
    pairs = list(zip(ours.heats, peer.heats, strict=True))
    name = f"shoal : {peer.name}"
    return [
        _ratio(name, [us.rate / them.rate for us, them in pairs], peer.entrant),
        _ratio(f"{name}, by CPU", [them.cpu / us.cpu for us, them in pairs]),
        _ratio(f"{name}, enqueue", [us.enqueue / them.enqueue for us, them in pairs]),
    ]


def _ratio(name: str, values: Sequence[float], held_to: Entrant | None = None) -> Figure:
    bar = None if held_to is None else held_to.bar
    return Figure(name, median(values), "x", bar, {"rounds": [round(value, 2) for value in values]})


async def _entered(store: Store, scale: Scale, entrant: Entrant) -> list[Record]:
    """Find out which way of running it suits the entrant best, with each number of workers."""
    return [await _best(store, scale, entrant, workers) for workers in scale.peer_workers]


async def _best(store: Store, scale: Scale, entrant: Entrant, workers: int) -> Record:
    if not scale.peer_trials:
        return Record(entrant, entrant.choices[0], workers, entrant.guess)
    records = [Record(entrant, choice, workers, 0) for choice in entrant.choices]
    jobs = round(entrant.guess * scale.peer_seconds * TRIAL)
    for record in records * (TRIALS if len(records) > 1 else 1):
        say(f"trial: {record.name} {dict(record.choice) or ''}")
        heat = await entrant.run(store, workers, jobs, record.choice)
        record.expected = max(record.expected, heat.rate)
    return max(records, key=lambda record: record.expected)


async def _heat(store: Store, scale: Scale, record: Record) -> Heat:
    """Run once, with enough jobs to last as long as the scale says."""
    for _ in range(scale.peer_tries):
        jobs = round(record.expected * scale.peer_seconds * MARGIN)
        heat = await record.entrant.run(store, record.workers, jobs, record.choice)
        record.expected = max(record.expected, heat.rate)
        if jobs / heat.rate >= scale.peer_seconds:
            break
    return heat


def _on(store: Store, figure: Figure) -> Figure:
    return Figure(f"{store.name}: {figure.scenario}", figure.value, figure.unit, figure.bar, figure.detail)

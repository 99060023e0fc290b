"""Heats summed up: the median of each racer, and how they stand to one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.crawl.corpora import CORPORA
from tools.bench.crawl.field import Racer
from tools.bench.crawl.race import Result
from tools.bench.report import Bar, Figure, at_least, at_most

CALM = 0.3  # cores that others may use without a heat being thought disturbed
TASKS = {"A": "known pages", "B": "follow all links from an index"} | {
    corpus.name: f"known pages of {corpus.about}" for corpus in CORPORA
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One racer at one task: medians over its heats."""

    task: str
    racer: str
    label: str
    survives: str
    processes: int
    heats: int
    pages: int
    rate: float  # pages a second while crawling
    whole_rate: float  # pages a second from the start of the process to its end
    seconds: float
    cpu_ms: float  # a page, the store's apart
    store_ms: float
    memory_mb: float
    others: float  # cores that others used meanwhile


# Who is compared with whom, at which task: racer, rival, bar.
_RATIOS: tuple[tuple[str, str, str, Bar], ...] = (
    ("A", "shoal-sqlite-1", "scrapy", at_least(6)),
    ("A", "shoal-sqlite-1", "crawlee-memory", at_least(4.5)),
    ("A", "shoal-sqlite-1", "crawlee-files", at_least(7)),
    ("A", "shoal-sqlite-1", "bare", at_least(0.9)),
    ("A", "shoal-postgres-1", "bare", at_least(0.8)),
    ("A", "shoal-sqlite-2", "shoal-sqlite-1", at_least(1.7)),
    ("A", "shoal-hooks-1", "shoal-sqlite-1", at_least(0.95)),
    ("A", "shoal-postgres-2", "shoal-postgres-1", at_least(1.7)),
    ("B", "shoal-sqlite-1", "scrapy", at_least(5)),
    *(
        (corpus.name, f"shoal-{store}-1", rival, bar)
        for corpus in CORPORA
        for store, rival, bar in (
            ("sqlite", "bare", at_least(1)),
            ("postgres", "bare", at_least(0.95)),
            ("redis", "bare", at_least(0.95)),
            ("sqlite", "scrapy", at_least(6.5)),
            ("postgres", "scrapy", at_least(6)),
            ("redis", "scrapy", at_least(6)),
            ("sqlite", "crawlee-memory", at_least(5)),
        )
    ),
)
_MEMORY = at_most(150)  # MB a worker


def rows(results: Sequence[Result], racers: Sequence[Racer]) -> list[Row]:
    """Return a row for each task and racer that has a result, in the order of the table."""
    found = []
    for task in TASKS:
        for racer in racers:
            heats = [one for one in results if (one.task, one.racer) == (task, racer.name)]
            found += [_row(task, racer, heats)] if heats else []
    return found


def figures(found: Sequence[Row]) -> list[Figure]:
    """Return how the racers stand to one another, and the bars that Shoal is held to."""
    by_name = {(row.task, row.racer): row for row in found}
    ratios = [
        figure
        for task, one, other, bar in _RATIOS
        if (task, one) in by_name and (task, other) in by_name
        for figure in _ratio(by_name[task, one], by_name[task, other], bar)
    ]
    memory = [
        Figure(f"{row.task} {row.racer}, memory a worker", row.memory_mb / row.processes, "MB", _MEMORY)
        for row in found
        if row.racer.startswith("shoal-")
    ]
    return [*ratios, *memory]


def _row(task: str, racer: Racer, all_heats: Sequence[Result]) -> Row:
    # Where the machine was left alone at least once, the other heats say more about its other users.
    heats = [heat for heat in all_heats if heat.others <= CALM] or all_heats
    return Row(
        task=task,
        racer=racer.name,
        label=racer.label,
        survives=racer.survives,
        processes=racer.processes,
        heats=len(heats),
        pages=heats[0].pages,
        rate=median(heat.pages / heat.crawl_seconds for heat in heats),
        whole_rate=median(heat.pages / heat.seconds for heat in heats),
        seconds=median(heat.seconds for heat in heats),
        cpu_ms=median(1_000 * heat.cpu / heat.pages for heat in heats),
        store_ms=median(1_000 * heat.store_cpu / heat.pages for heat in heats),
        memory_mb=median(heat.memory_mb for heat in heats),
        others=median(heat.others for heat in heats),
    )


def _ratio(one: Row, other: Row, bar: Bar) -> list[Figure]:
    name = f"{one.task} {one.racer} / {other.racer}"
    found = [
        Figure(f"{name}, crawling", one.rate / other.rate, "x", bar),
        Figure(f"{name}, start to end", one.whole_rate / other.whole_rate, "x", bar),
    ]
    if one.processes == other.processes:
        effort = (other.cpu_ms + other.store_ms) / (one.cpu_ms + one.store_ms)
        found.append(Figure(f"{name}, by CPU", effort, "x"))
    return found

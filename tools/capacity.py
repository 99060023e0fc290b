"""Compute how many cores, how much memory and disk, and how many connections a crawl needs.

`python -m tools.capacity` prints the table of docs/explanation/capacity.md; a test compares the two.
"""

from dataclasses import dataclass
from math import ceil

DAY = 86_400  # seconds
MB, GB, TB = 1e6, 1e9, 1e12


@dataclass(frozen=True, slots=True)
class StoreCosts:
    """What one page costs a store: measured with `make bench-haul` and `make bench-fleet`."""

    server_cpu: float  # seconds: claim, settle with one item, and one new task
    stored: float  # bytes that stay: the task, its key, its item, and their indexes
    wal: float = 0.0  # bytes that are written to the log of changes


POSTGRES = StoreCosts(server_cpu=240e-6, stored=710, wal=3_000)
REDIS = StoreCosts(server_cpu=100e-6, stored=270)

WORKER_CPU = 0.73e-3  # seconds per page, `make bench-crawl`: fetch, parse, one item, settle
WORKER_MEMORY = 160 * MB  # of a process after tens of thousands of pages
CONCURRENCY = 64  # requests of a worker, by default
CONNECTIONS = 2  # of a worker to its store: one claims while another settles; its launcher has as many

# Assumptions: put in your own.
LATENCY = 0.5  # seconds until a page is there
HOST_DELAY = 1.0  # seconds between two requests to a host
UTILISATION = 0.7  # of a core, so that a burst does not queue
PER_MACHINE = 16  # workers of a launcher

CRAWLS = ((1e6, 1e6), (1e7, 1e7), (1e8, 1e8), (5_000 * DAY, 1e9), (50_000 * DAY, 1e10))  # pages a day, URLs
HEADINGS = (
    "pages a day",
    "pages/s",
    "URLs",
    "hosts at once",
    "workers",
    "their cores",
    "their memory",
    "PostgreSQL: cores",
    "disk",
    "WAL a day",
    "connections",
    "or Redis: cores",
    "memory",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a crawl needs."""

    rate: float  # pages a second
    urls: float

    @property
    def hosts(self) -> int:
        """The hosts that must have work at the same time."""
        return ceil(self.rate * HOST_DELAY)

    @property
    def workers(self) -> int:
        """Worker processes: enough requests at once, and enough cores."""
        return max(1, ceil(self.rate * LATENCY / CONCURRENCY), ceil(self.worker_cores))

    @property
    def worker_cores(self) -> float:
        """Cores for all workers."""
        return self.rate * WORKER_CPU / UTILISATION

    @property
    def connections(self) -> int:
        """Connections to the store, of the workers and their launchers."""
        return CONNECTIONS * (self.workers + ceil(self.workers / PER_MACHINE))

    def server_cores(self, store: StoreCosts) -> float:
        """Cores of the store."""
        return self.rate * store.server_cpu / UTILISATION

    def row(self) -> tuple[str, ...]:
        """Return the plan as the cells of a line."""
        return (
            _count(self.rate * DAY),
            f"{self.rate:,.0f}",
            _count(self.urls),
            f"{self.hosts:,}",
            f"{self.workers:,}",
            _cores(self.worker_cores),
            _bytes(self.workers * WORKER_MEMORY),
            _cores(self.server_cores(POSTGRES)),
            _bytes(self.urls * POSTGRES.stored),
            _bytes(self.rate * DAY * POSTGRES.wal),
            f"{self.connections:,}",
            _cores(self.server_cores(REDIS)),
            _bytes(self.urls * REDIS.stored),
        )


def table() -> str:
    """Return the table of the page, in Markdown."""
    rows = [Plan(pages / DAY, urls).row() for pages, urls in CRAWLS]
    ruler = "|" + "--:|" * len(HEADINGS)
    heading, *lines = (f"| {' | '.join(cells)} |" for cells in (HEADINGS, *rows))
    return "\n".join((heading, ruler, *lines))


def _count(number: float) -> str:
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}"


def _cores(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _bytes(number: float) -> str:
    for size, name in ((TB, "TB"), (GB, "GB"), (MB, "MB")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f} B"


if __name__ == "__main__":
    print(table())

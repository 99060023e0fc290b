"""Measure Shoal where hosts are slow, workers are killed or many, and every host's pace is to be kept."""

import argparse
import asyncio
import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from tests.servers.postgres import PostgresServer
from tools.bench.hardship.cores import Cores
from tools.bench.hardship.origin import Asked
from tools.bench.hardship.stage import Hosts, run
from tools.bench.servers import open_stores
from tools.bench.stores import Store

HEALTHY, SLOW, PAGES = 9_000, 1_000, 3  # hosts, and pages of each that is healthy
ROUNDS = 3  # one more or less says little: the same run differs by a tenth
KILLED_PAGES, KILL_EVERY = 20_000, 0.25
IN_FLIGHT = 2 * 64  # pages of one worker: in the air, and on their way to the queue
POLITE_HOSTS, POLITE_PAGES, DELAY = 50, 200, 0.1
POLITE_QUEUES, PACE_ROUNDS = ("sqlite", "postgres", "redis", "rabbitmq"), 5
CROWD_PAGES, PART = 5_000, 0.25  # pages for each worker, and its part of a core

Line = tuple[str, str, str]  # what was measured, the figure, the bar


def slow_hosts(folder: Path) -> Iterator[Line]:
    """Yield what healthy hosts keep of their pace when one in ten drips; the pages asked for are the same."""
    kept = []
    for turn in range(ROUNDS):
        well, ill = (_healthy_rate(_fresh(folder, f"slow-{turn}-{slow}"), slow) for slow in (0, SLOW))
        kept.append((ill / well, ill, well))
    share, ill, well = sorted(kept)[ROUNDS // 2]
    shares = ", ".join(f"{one:.2f}" for one, _, _ in kept)
    yield (
        f"{SLOW:,} dripping hosts among {SLOW + HEALTHY:,}",
        f"{ill:,.0f} of {well:,.0f} healthy pages/s: {share:.2f} (rounds: {shares})",
        ">= 0.90",
    )


def _healthy_rate(folder: Path, slow: int) -> float:
    pages = [(host, 0) for host in range(SLOW)]
    pages += [(host, page) for host in range(SLOW, SLOW + HEALTHY) for page in range(PAGES)]
    random.Random(7).shuffle(pages)
    with Hosts(slow) as hosts:
        urls = [hosts.url(host, page) for host, page in pages]
        done = run(folder, urls, {"rate": None, "timeout": "20s", "retries": 0}, workers=1)
        assert len(done.items) == len(pages) - slow, done.summary
        return _rate([one for one in hosts.asked() if one[0] >= SLOW])


def kills(folder: Path) -> Iterator[Line]:
    """Yield what it costs that a worker is killed every second, on two queues."""
    with PostgresServer(durable=True) as postgres:
        postgres.sql("CREATE DATABASE kills")
        for name, queue in (("SQLite", None), ("PostgreSQL", postgres.url("kills"))):
            yield _killed(_fresh(folder, f"kills-{name}"), name, queue)


def _killed(folder: Path, name: str, queue: str | None) -> Line:
    with Hosts() as hosts:
        urls = [hosts.url(0, page) for page in range(KILLED_PAGES)]
        settings = {"rate": None, "per_host": 256}
        done = run(folder, urls, settings, workers=4, queue=queue, kill_every=KILL_EVERY)
        extra = len(hosts.asked()) - KILLED_PAGES
    items = Counter(item["url"] for item in done.items)
    once = sum(count == 1 for count in items.values())
    return (
        f"{done.kills} kills of 4 workers, {KILLED_PAGES:,} pages, {name}",
        f"{once:,} pages with one item, {len(items) - once} with more; {extra} extra fetches",
        f"{KILLED_PAGES:,}, 0; <= {done.kills * IN_FLIGHT}",
    )


def pace(folder: Path, queues: Collection[str] = POLITE_QUEUES) -> Iterator[Line]:
    """Yield how well eight workers keep fifty hosts' pace, as the hosts see it, on every queue in turn."""
    with open_stores(queues, shared_buffers="128MB") as stores:
        for turn in range(PACE_ROUNDS):
            for name, store in stores.items():
                lines = asyncio.run(_paced_in_a_room(_fresh(folder, f"pace-{name}-{turn}"), name, store))
                yield from lines


async def _paced_in_a_room(folder: Path, name: str, store: Store) -> list[Line]:
    async with store.room() as address:
        return await asyncio.to_thread(lambda: list(_paced(folder, name, address)))


def _paced(folder: Path, name: str, queue: str) -> Iterator[Line]:
    with Hosts(stamped=True) as hosts:
        urls = [hosts.url(host, page) for page in range(POLITE_PAGES) for host in range(POLITE_HOSTS)]
        before = _stolen()
        run(folder, urls, {"rate": f"{1 / DELAY:g}/s", "per_host": 8}, workers=8, queue=queue)
        stolen = _stolen() - before
        moments: dict[int, list[float]] = defaultdict(list)
        for host, _, moment in hosts.asked():
            moments[host].append(moment)
    gaps = [later - sooner for times in moments.values() for sooner, later in pairwise(sorted(times))]
    early = sum(gap < 0.95 * DELAY for gap in gaps)
    spans = [max(times) - min(times) for times in moments.values()]
    used = POLITE_HOSTS * (POLITE_PAGES - 1) * DELAY / sum(spans)
    what = f"8 workers, {POLITE_HOSTS} hosts, {1 / DELAY:g}/s each, {name}"
    short = f"{early} of {len(gaps):,} gaps below 0.95; shortest {min(gaps) / DELAY:.3f}"
    yield what, f"{short}; {1000 * stolen:.0f} ms in which the machine stood still", "0"
    yield what, f"{100 * used:.1f} % of the allowed rate used", ">= 97 %"


def crowd(folder: Path) -> Iterator[Line]:
    """Yield what two workers and four do, where each has its own part of a core, against one."""
    if not Cores.are_there():
        yield f"workers with {PART:.0%} of a core each", "not measured: only root can share out a core", ""
        return
    with PostgresServer(durable=True) as postgres:
        for name in ("SQLite", "PostgreSQL"):
            rates = {}
            for workers in (1, 2, 4):
                place = _fresh(folder, f"crowd-{name}-{workers}")
                queue = None
                if name == "PostgreSQL":
                    postgres.sql(f"CREATE DATABASE crowd{workers}")
                    queue = postgres.url(f"crowd{workers}")
                rates[workers] = _crowd_rate(place, workers, queue)
            figures = "; ".join(
                f"{workers}: {rate:,.0f} pages/s, {rate / rates[1]:.2f}x" for workers, rate in rates.items()
            )
            yield f"workers with {PART:.0%} of a core each, {name}", figures, "2: >= 1.7x"


def _crowd_rate(folder: Path, workers: int, queue: str | None) -> float:
    with Hosts() as hosts, Cores(PART) as cores:
        urls = [hosts.url(0, page) for page in range(CROWD_PAGES * workers)]
        settings = {"rate": None, "per_host": 256}
        run(folder, urls, settings, workers=workers, queue=queue, cores=cores)
        asked = sorted(moment for _, _, moment in hosts.asked())
    # Not the beginning, when workers come one after the other, nor the end.
    middle = asked[len(asked) // 4 : -len(asked) // 4]
    return (len(middle) - 1) / (middle[-1] - middle[0])


def _stolen() -> float:
    """Return how many seconds the processors, all together, were kept from this machine by its host."""
    steal = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return steal / os.sysconf("SC_CLK_TCK")


def _rate(asked: Asked) -> float:
    moments = sorted(moment for _, _, moment in asked)
    return (len(moments) - 1) / (moments[-1] - moments[0])


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


HARDSHIPS: dict[str, Callable[[Path], Iterator[Line]]] = {
    "slow": slow_hosts,
    "kills": kills,
    "pace": pace,
    "crowd": crowd,
}


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(prog="make bench-hardship", description=__doc__)
    parser.add_argument("--only", choices=list(HARDSHIPS))
    parser.add_argument("--queue", choices=POLITE_QUEUES, help="measure the pace on this queue only")
    options = parser.parse_args()
    hardships = HARDSHIPS
    if options.queue:
        hardships = HARDSHIPS | {"pace": partial(pace, queues=[options.queue])}
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in hardships.items():
            if options.only in (None, name):
                for what, figure, bar in measure(Path(folder)):
                    print(f"{what:50}  {figure}  (bar: {bar})", flush=True)


if __name__ == "__main__":
    main()

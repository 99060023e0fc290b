"""Crawl real documentation on every queue, and compare with all that can be reached; leave endless sites."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.servers.process import ServerFailed, ServerMissing
from tests.unit.scrape.generated_sites import GENERATED, HOME, Site, render
from tools.bench.talk import say
from tools.complete.reference import name_of, reachable
from tools.complete.serve import served
from tools.histories.__main__ import opened

DOC = Path("/usr/share/doc")
# By name: the Debian package, its folder of HTML files, and the page to begin with.
SITES = {
    "postgresql": ("postgresql-doc-15", DOC / "postgresql-doc-15/html", "/index.html"),
    "python": ("python3.11-doc", DOC / "python3.11/html", "/index.html"),
    "cmake": ("cmake-doc", DOC / "cmake-data/html", "/index.html"),
    "sqlite": ("sqlite3-doc", DOC / "sqlite3", "/index.html"),
    "apache": ("apache2-doc", DOC / "apache2-doc/manual/en", "/index.html"),
    "git": ("git-doc", DOC / "git/html", "/git.html"),
}
QUEUES = ("sqlite", "postgresql", "redis", "rabbitmq")
WORKERS = (1, 4)
MAX_ENDLESS = 20_000  # pages after which a site without end must have been left
SHOWN = 5  # pages that are named
_run_numbers = count(1)


@dataclass
class Cell:
    """The runs of one site on one queue with one number of workers."""

    site: str
    queue: str
    workers: int
    expected: int
    complete: int = 0
    seconds: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Return the line of the table."""
        runs = len(self.seconds)
        median = statistics.median(self.seconds) if runs else 0.0
        cells = (self.site, f"{self.expected:,}", self.queue, self.workers, f"{self.complete} of {runs}")
        return f"| {' | '.join(map(str, cells))} | {median:.1f} |"


def main() -> int:
    """Carry out the crawls that the command line asks for, and print a table."""
    options = read_options(sys.argv[1:])
    if options.endless:
        return _leave_endless_sites(options)
    cells: list[Cell] = []
    try:
        for name in options.site or SITES:
            _crawl_site(name, options, cells)
    except KeyboardInterrupt:
        say("interrupted; this is what was crawled so far")
        return 130
    finally:
        _report(cells, options)
    return 1 if any(cell.complaints for cell in cells) else 0


def _crawl_site(name: str, options: argparse.Namespace, cells: list[Cell]) -> None:
    package, folder, first = SITES[name]
    if not folder.is_dir():
        raise ServerMissing(package)
    with served(folder) as home:
        wanted = reachable(home + first)
        say(f"{name}: {len(wanted):,} pages can be reached")
        for queue in options.queue or QUEUES:
            with opened(queue) as address:
                for workers in options.workers or WORKERS:
                    cell = Cell(name, queue, workers, len(wanted))
                    cells.append(cell)
                    for _ in range(options.runs):
                        _crawl_once(cell, address, home + first, wanted)
                    say(f"{cell.row()} {'; '.join(cell.complaints)}")


def _crawl_once(cell: Cell, address: str, url: str, wanted: set[str]) -> None:
    with _crawled(address, url, cell.workers) as (done, out, seconds):
        cell.seconds.append(seconds)
        items = [name_of(json.loads(line)["url"]) for line in out.read_text().splitlines()]
        got = set(items)
    if done.get("state") == "finished" and got == wanted:
        cell.complete += 1
        return
    lost, more = sorted(wanted - got), sorted(got - wanted)
    cell.complaints.append(
        f"{done.get('state')}: {len(lost)} lost {lost[:SHOWN]}, {len(more)} unexpected {more[:SHOWN]}"
    )


@contextmanager
def _crawled(address: str, url: str, workers: int) -> Iterator[tuple[dict[str, Any], Path, float]]:
    """Crawl a site with the command, and give its report, its items and how long it took."""
    with tempfile.TemporaryDirectory(prefix="shoal-complete-") as folder:
        out = Path(folder) / "items.jsonl"
        words = ["run", str(Path(__file__).with_name("scraper.py")), "--url", url, "--queue", address]
        words += ["--run", f"complete{next(_run_numbers)}", "--workers", str(workers), "--out", str(out)]
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "shoal", *words, "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        if not out.exists():
            raise ServerFailed(f"The command failed with exit code {done.returncode}: {done.stderr.strip()}")
        yield json.loads(done.stdout), out, seconds


def _leave_endless_sites(options: argparse.Namespace) -> int:
    """Crawl each generated site until it is left."""
    is_broken = False
    print("| site without end | queue | workers | pages | state | left out | seconds |")
    print("|---|---|--:|--:|---|---|--:|")
    for site in GENERATED:
        for queue in options.queue or ("sqlite",):
            for workers in options.workers or WORKERS:
                is_broken |= not _leave_site(site, queue, workers)
    return 1 if is_broken else 0


def _leave_site(site: Site, queue: str, workers: int) -> bool:
    with (
        opened(queue) as address,
        served(lambda path: render(site, HOME + path)) as home,
        _crawled(address, f"{home}/", workers) as (done, _, seconds),
    ):
        pages, state = int(done["items"]), str(done["state"])
        why = ", ".join(done["not_followed"])
    row = (site.__name__, queue, workers, f"{pages:,}", state, why, f"{seconds:.0f}")
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    return state == "partial" and pages <= MAX_ENDLESS


def _report(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps([asdict(cell) for cell in cells]), flush=True)
        return
    print("| site | pages | queue | workers | complete runs | seconds (median) |\n|---|--:|---|--:|--:|--:|")
    for cell in cells:
        print(cell.row())
        for complaint in cell.complaints:
            print(f"  {complaint}", file=sys.stderr)


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; one that cannot be read ends the program."""
    parser = argparse.ArgumentParser(prog="make complete", description=__doc__)
    parser.add_argument("--site", choices=SITES, action="append", help="by default all")
    parser.add_argument("--queue", choices=QUEUES, action="append", help="by default all")
    parser.add_argument("--workers", type=int, action="append", metavar="N", help="by default 1, then 4")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each combination; default 5")
    parser.add_argument("--endless", action="store_true", help="crawl sites without end instead")
    parser.add_argument("--json", action="store_true", help="everything that was found, instead of a table")
    return parser.parse_args(words)


if __name__ == "__main__":
    os.environ.pop("SHOAL_QUEUE", None)
    try:
        sys.exit(main())
    except (ServerMissing, ServerFailed) as error:
        sys.exit(f"error: {error}")

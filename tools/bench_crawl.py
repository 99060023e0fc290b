"""Measure crawling beside its peers: a table on stdout, everything else in a JSON file."""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.servers.process import ServerFailed, ServerMissing
from tools.bench.crawl.check import WrongOutput
from tools.bench.crawl.corpora import CORPORA, CorpusMissing, real_pages
from tools.bench.crawl.cpu import pin, wait_for_quiet
from tools.bench.crawl.field import Racer, racers
from tools.bench.crawl.measure import CommandFailed
from tools.bench.crawl.nginx import Nginx
from tools.bench.crawl.peers import peers_python
from tools.bench.crawl.peers import versions as peer_versions
from tools.bench.crawl.race import SERVER, Race, Result
from tools.bench.crawl.report import table, write_docs, write_json
from tools.bench.crawl.site import PAGES
from tools.bench.crawl.store import manual
from tools.bench.crawl.stores import Stores
from tools.bench.crawl.summary import CALM, TASKS, figures, rows
from tools.bench.report import machine, versions
from tools.bench.talk import say

QUICK_PAGES = 1_000
OURS = ("python", "shoal", "apsw", "asyncpg", "redis")
Entry = tuple[str, Racer]


class Bench:
    """One run of the benchmark: what it has found out, and what went wrong."""

    def __init__(self, pages: int, rounds: int, wait: timedelta) -> None:
        self._pages, self._rounds, self._wait = pages, rounds, wait
        self.results: list[Result] = []
        self.failed: dict[str, str] = {}
        self._about: dict[str, Any] = {
            "pages": pages,
            "rounds": rounds,
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": {name: found for name, found in versions().items() if name in OURS} | peer_versions(),
        }

    def run(self, entries: Sequence[Entry]) -> None:
        """Let everybody run once a round; one that fails does not stop the rest."""
        python = _python_for(entries)
        folder, truths = manual(self._pages)
        folders, truths_by_task = {"": folder}, {"A": truths, "B": truths}
        for corpus in CORPORA:
            if any(task == corpus.name for task, _ in entries):
                folders[corpus.name], found = real_pages(corpus, python)
                truths_by_task[corpus.name] = [truth.below(corpus.name) for truth in found]
        with Nginx(folders, SERVER) as nginx, Stores() as stores:
            race = Race(nginx, stores, truths_by_task, python)
            for number in range(self._rounds):
                for task, racer in entries:
                    self._heat(race, number, task, racer)

    def _heat(self, race: Race, number: int, task: str, racer: Racer) -> None:
        name = name_of((task, racer))
        if name in self.failed:
            return
        wait_for_quiet(self._wait)
        try:
            result = race.heat(task, racer)
        except (CommandFailed, WrongOutput, ServerFailed, OSError) as error:
            self.failed[name] = str(error)
            say(f"{name} failed: {error}")
            return
        self.results.append(result)
        rate = result.pages / result.crawl_seconds
        disturbed = f"; others used {result.others:.1f} cores" if result.others > CALM else ""
        say(f"{number + 1}/{self._rounds}  {name}: {rate:,.0f} pages/s, {result.seconds:.1f} s{disturbed}")

    def report(self, out: Path) -> None:
        """Show what is known, and write it down."""
        found = rows(self.results, racers())
        if found:
            write_json(out, found, self.results, {**self._about, "failed": self.failed})
            print(table(found), flush=True)
        for name, error in self.failed.items():
            print(f"{name} failed: {error.splitlines()[0]}", flush=True)


def _python_for(entries: Sequence[Entry]) -> Path:
    """Return the Python of the peers; where none of them runs it is ours, and they are not installed."""
    real = {corpus.name for corpus in CORPORA}  # whose pages the peers' libraries read
    is_needed = any(racer.is_peer or task in real for task, racer in entries)
    return peers_python() if is_needed else Path(sys.executable)


def name_of(entry: Entry) -> str:
    """Return what `--only` takes."""
    task, racer = entry
    return f"{task}-{racer.name}"


def main() -> int:
    """Run the heats that the command line asks for."""
    options = _options()
    entries = _chosen(options.only)
    if options.list:
        print("\n".join(map(name_of, entries)))
        return 0
    if not options.redraw:
        code = _measure(options, entries)
        if code:
            return code
    if options.record or options.redraw:
        write_docs(options.out)
    return 0


def _measure(options: argparse.Namespace, entries: Sequence[Entry]) -> int:
    bench = Bench(options.pages, options.rounds, timedelta(minutes=options.wait))
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    # What measures must not stand in the way of what is measured.
    pin([os.getpid()], {SERVER})
    try:
        bench.run(entries)
    except KeyboardInterrupt:
        say("interrupted; this is what was measured so far")
        return 130
    finally:
        bench.report(options.out)
    missed = sum(figure.verdict == "MISSED" for figure in figures(rows(bench.results, racers())))
    say(f"{len(bench.results)} heats, {missed} bars missed. All figures: {options.out}")
    return 1 if bench.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-crawl", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PAGES:,} pages, one round")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="measure this one; may hold * and be repeated"
    )
    parser.add_argument("--list", action="store_true", help="show the names, and measure nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often everybody runs, default 3")
    parser.add_argument(
        "--wait", type=float, default=0, metavar="MINUTES", help="until nobody else uses the machine, a heat"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-crawl.json"), help="where the JSON goes")
    parser.add_argument("--record", action="store_true", help="write the page and the chart in docs/ too")
    parser.add_argument("--redraw", action="store_true", help="only write these, from the last JSON")
    options = parser.parse_args()
    options.pages = QUICK_PAGES if options.quick else PAGES
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def _present() -> list[Racer]:
    """Return everybody who can run on this machine."""
    if shutil.which("wrk"):
        return racers()
    say("wrk is left out, for it is not installed. Run: tools/servers.sh wrk")
    return [racer for racer in racers() if racer.name != "wrk"]


def _chosen(only: Sequence[str] | None) -> list[Entry]:
    """Return who is meant; ends the program over a name that means nobody."""
    known = [(task, racer) for task in TASKS for racer in _present() if racer.only_task in (None, task)]
    names = [name_of(entry) for entry in known]
    for pattern in only or ():
        if not any(fnmatch(name, pattern) for name in names):
            near = get_close_matches(pattern, names, 1)
            hint = f"Did you mean '{near[0]}'?" if near else "Run with --list to see them."
            raise SystemExit(f"error: Nobody is called '{pattern}'. {hint}")
    return [one for one in known if only is None or any(fnmatch(name_of(one), each) for each in only)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerMissing, CorpusMissing) as error:
        sys.exit(f"error: {error}")

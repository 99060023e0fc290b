"""Measure the queue beside its peers: a table on stdout, everything else in a JSON file."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import uvloop

from tests.servers.process import ServerMissing
from tools.bench.peers.home import versions as peers_in
from tools.bench.report import Figure, machine, table, versions, write_json
from tools.bench.scale import BIG, DEFAULT, QUICK, Scale
from tools.bench.scenarios import Scenario, scenarios
from tools.bench.servers import open_stores
from tools.bench.stores import Store
from tools.bench.talk import say


class Bench:
    """One run of the benchmark: what it has found out, and what went wrong."""

    def __init__(self, scale: Scale, stores: Mapping[str, Store]) -> None:
        self._scale, self._stores = scale, stores
        self.figures: list[Figure] = []
        self.failed: dict[str, str] = {}
        self.loads: dict[str, list[float]] = {}
        self.about: dict[str, Any] = {
            "scale": scale.name,
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": versions(),
            "peers": {home: peers_in(home) for home in ("bench-queue", "bench-queue-arq")},
            **{name: store.about() for name, store in stores.items()},
        }

    async def run(self, chosen: Sequence[Scenario]) -> None:
        """Measure one scenario after the other; one that fails does not stop the rest."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        for number, scenario in enumerate(chosen, 1):
            say(f"[{number}/{len(chosen)}] {scenario.name}")
            before = _load()
            try:
                await self._measure(scenario)
            except Exception as error:
                self.failed[scenario.name] = f"{type(error).__name__}: {error}"
                say(f"{scenario.name} failed: {self.failed[scenario.name]}")
            self.loads[scenario.name] = [before, _load()]

    async def _measure(self, scenario: Scenario) -> None:
        async with aclosing(scenario.measure(self._stores[scenario.store], self._scale)) as figures:
            async for figure in figures:
                self.figures.append(figure)

    def report(self, out: Path) -> None:
        """Show what is known, and write it down."""
        about = {**self.about, "load_after": machine()["load"], "loads": self.loads, "failed": self.failed}
        if self.figures:
            write_json(out, self.figures, about)
        print(table(self.figures), flush=True)
        print(_weather(self.loads), flush=True)
        for name, error in self.failed.items():
            print(f"{name} failed: {error.splitlines()[0]}", flush=True)


def main() -> int:
    """Run the scenarios that the command line asks for."""
    options = _options()
    chosen = _chosen(scenarios(options.scale), options.only)
    if options.list:
        print("\n".join(scenario.name for scenario in chosen))
        return 0
    wanted = {scenario.store for scenario in chosen}
    with open_stores(wanted, shared_buffers=options.shared_buffers) as stores:
        bench = Bench(options.scale, stores)
        try:
            uvloop.run(bench.run(chosen))
        except (KeyboardInterrupt, asyncio.CancelledError):
            say("interrupted; this is what was measured so far")
            return 130
        finally:
            bench.report(options.out)
    missed = sum(figure.verdict == "MISSED" for figure in bench.figures)
    say(f"{len(bench.figures)} figures, {missed} bars missed. All figures: {options.out}")
    return 1 if bench.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-queue", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", dest="scale", action="store_const", const=QUICK, help="small sizes, two minutes"
    )
    size.add_argument(
        "--big", dest="scale", action="store_const", const=BIG, help="with millions of tasks, over an hour"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAMES",
        help="measure these: names or their beginnings, with commas between; may hold * and be repeated",
    )
    parser.add_argument(
        "--list", action="store_true", help="show the names of the scenarios, and measure nothing"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-queue.json"), help="where the JSON goes")
    parser.add_argument(
        "--shared-buffers", default="128MB", metavar="SIZE", help="of PostgreSQL, default 128MB"
    )
    parser.set_defaults(scale=DEFAULT)
    return parser.parse_args()


def _chosen(known: Sequence[Scenario], only: Iterable[str] | None) -> list[Scenario]:
    """Return the scenarios that are meant; ends the program over a name that means none."""
    if only is None:
        return list(known)
    words = [word for text in only for word in text.split(",") if word]
    for word in words:
        if not any(_means(word, scenario.name) for scenario in known):
            raise SystemExit(f"error: No scenario is called '{word}'. {_hint(word, known)}")
    return [scenario for scenario in known if any(_means(word, scenario.name) for word in words)]


def _means(word: str, name: str) -> bool:
    """Tell whether a word of the command line means a scenario: by its name, or by the beginning of it."""
    return fnmatch(name, word) or name.startswith(f"{word}-")


def _hint(word: str, known: Sequence[Scenario]) -> str:
    names = [scenario.name for scenario in known]
    near = get_close_matches(word, [*names, *(name.partition("-")[0] for name in names)], 1)
    return f"Did you mean '{near[0]}'?" if near else "Run with --list to see them."


def _weather(loads: Mapping[str, Sequence[float]]) -> str:
    """Say how busy the machine was."""
    seen = [load for pair in loads.values() for load in pair]
    return f"Load average of the machine: {min(seen)} to {max(seen)}" if seen else ""


def _load() -> float:
    return float(machine()["load"][0])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")

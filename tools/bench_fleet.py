"""Measure what hundreds and thousands of workers cost a server, at work and with nothing to do."""

import argparse
import asyncio
import sys
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from tests.servers.process import ServerMissing
from tools.bench.fleet.measure import DEFAULT, QUICK, TINY, FleetScale, measure
from tools.bench.fleet.servers import SERVERS
from tools.bench.fleet.workload import RATE
from tools.bench.report import Figure, machine, table, versions, write_json
from tools.bench.talk import say

DEFAULT_SERVERS = [name for name in SERVERS if name != "sqlite"]
QUICK_SERVERS = ["postgres", "redis"]


async def run(servers: list[str], scale: FleetScale, figures: list[Figure], failed: dict[str, str]) -> None:
    """Measure one server after the other, each anew for every size; one that fails does not stop the rest."""
    for name in servers:
        for workers in scale.workers:
            try:
                with SERVERS[name]() as server:
                    async with aclosing(measure(server, workers, scale)) as found:
                        async for figure in found:
                            figures.append(figure)
            except Exception as error:
                if isinstance(error, ServerMissing):
                    raise
                failed[f"{name}, {workers:,} workers"] = f"{type(error).__name__}: {error}"
                say(f"{name} failed: {error}")


def main() -> int:
    """Measure the servers that the command line asks for."""
    options = _options()
    default = QUICK_SERVERS if options.scale is QUICK else DEFAULT_SERVERS
    servers = [name for text in options.only or [",".join(default)] for name in text.split(",")]
    if unknown := sorted(set(servers) - SERVERS.keys()):
        raise SystemExit(f"error: No server is called '{unknown[0]}'. There are: {', '.join(SERVERS)}")
    scale = options.scale
    if options.workers:
        scale = replace(scale, workers=[int(count) for count in options.workers.split(",")])
    scale = replace(scale, rate=options.rate, processes=options.processes or scale.processes)
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    before = machine()
    about = {"scale": scale.name, "began": datetime.now(UTC).isoformat(timespec="seconds"), "machine": before}
    try:
        uvloop.run(run(servers, scale, figures, failed))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted; this is what was measured so far")
        return 130
    finally:
        after = machine()["load"]
        more = {"load_after": after, "failed": failed, "versions": versions()}
        write_json(options.out, figures, {**about, **more})
        print(table(figures), flush=True)
        print(f"Load average of the machine: {before['load'][0]} before, {after[0]} after", flush=True)
        for name, error in failed.items():
            print(f"{name} failed: {error.splitlines()[0]}", flush=True)
    say(f"All figures: {options.out}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", dest="scale", action="store_const", const=QUICK, help="200 workers, PostgreSQL and Redis"
    )
    size.add_argument("--tiny", dest="scale", action="store_const", const=TINY, help="20 workers, seconds")
    parser.add_argument("--workers", metavar="N,N", help="how many, default 200,1000,2000")
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        metavar="N",
        help=f"tasks a second per worker, default {RATE:g}",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="that simulate, default 2, beside the probe"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAMES", help=f"these servers, with commas: {', '.join(SERVERS)}"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-fleet.json"), help="where the JSON goes")
    parser.set_defaults(scale=DEFAULT)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")

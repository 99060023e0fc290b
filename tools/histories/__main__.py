"""Let many clients work on one real store at once, in random ways, and judge all that it told them."""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerMissing
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisCluster, RedisServer
from tools.bench.talk import say
from tools.chaos.stores import open_store
from tools.histories.clients import Clock
from tools.histories.failovers import Director, of_store
from tools.histories.judge import Figures, figures, judge
from tools.histories.play import Cast, play

CLOCKS = {
    "postgresql": Clock.BEGUN,
    "pgbouncer": Clock.BEGUN,
    "rabbitmq": Clock.BEGUN,
    "redis-cluster": Clock.GUESSED,
}
SHOWN = 5  # complaints of one rule
WITH_REPLICA = ("postgresql", "redis")
PATIENCE = timedelta(minutes=2)  # a standby is promoted within it on a machine that has much else to do


def main() -> int:
    """Play histories on the stores that the command line names, until their time is over."""
    options = read_options(sys.argv[1:])
    is_broken = False
    for name in options.queue or (WITH_REPLICA if options.failovers else STORES):
        if options.failovers:
            is_broken |= _play_with_failovers(name, options)
            continue
        with opened(name) as url:
            is_broken |= _play_for(name, url, options)
    return 1 if is_broken else 0


def _play_with_failovers(name: str, options: argparse.Namespace) -> bool:
    with ExitStack() as stack:
        thread = stack.enter_context(ThreadPoolExecutor(1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(open_store(name, folder))
        fail_over = of_store(store)

        def direct(seed: int) -> Director:
            return Director(fail_over, options.failovers, random.Random(f"{seed} director"), thread)

        return _play_for(name, store.url, options, direct)


def _play_for(
    name: str, url: str, options: argparse.Namespace, direct: Callable[[int], Director] | None = None
) -> bool:
    """Play one history after another on a store; True if one broke a rule."""
    deadline, seed, is_broken = time.monotonic() + 60 * options.minutes, options.seed, False
    while time.monotonic() < deadline:
        seconds = max(3.0, min(options.seconds, deadline - time.monotonic()))
        cast = Cast(seed, seconds, options.clients, clock=CLOCKS.get(name, Clock.EXACT))
        record = asyncio.run(play(lambda number: _open(url), cast, direct(seed) if direct else None))
        found, counted = judge(record), figures(record)
        _report(name, seed, counted, found, as_json=options.json)
        is_broken |= bool(found)
        seed += 1
    return is_broken


async def _open(url: str) -> Queue:
    return await open_queue(url, patience=PATIENCE)


def _report(name: str, seed: int, counted: Figures, found: dict[str, list[str]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"queue": name, "seed": seed, **asdict(counted), "broken": found}), flush=True)
        return
    verdict = f"BROKEN: {', '.join(found)}" if found else "held"
    least = "" if counted.smallest is None else f", the smallest {counted.smallest:.3f} of what is due"
    facts = [
        f"{counted.completed:,} of {counted.tasks:,} tasks completed, {counted.dead:,} dead",
        f"{counted.grants:,} leases, {counted.lost_leases:,} of them lost",
        f"{counted.refused:,} outcomes refused",
        f"{counted.gaps:,} gaps{least}",
    ]
    if counted.failovers:
        facts += [
            f"{counted.failovers} failovers, in which {counted.forgotten:,} leases were lost",
            f"{counted.redone:,} tasks done again",
            f"{counted.left_out:,} tasks not judged",
        ]
    say(f"{name}, seed {seed}: {'; '.join(facts)}: {verdict}")
    for rule, complaints in found.items():
        for complaint in complaints[:SHOWN]:
            print(f"  {rule}: {complaint}", flush=True)
        if len(complaints) > SHOWN:
            print(f"  {rule}: and {len(complaints) - SHOWN:,} more", flush=True)


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; one that cannot be read ends the program."""
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument(
        "--queue", choices=STORES, action="append", help="by default all, one after the other"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for each queue; default 1")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each history; default 15")
    parser.add_argument("--clients", type=int, default=6, help="at once; default 6")
    chosen = random.randrange(10_000)
    parser.add_argument(
        "--seed", type=int, default=chosen, help="of the first history; the next has one more"
    )
    parser.add_argument(
        "--failovers",
        type=int,
        default=0,
        metavar="N",
        help="let a replica that has missed the last second of its primary's writes take over, N times in "
        "each history; redis and postgresql only. What was written in that time may be lost, nothing else",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each history")
    options = parser.parse_args(words)
    if options.failovers and (unable := sorted(set(options.queue or ()) - set(WITH_REPLICA))):
        parser.error(f"--failovers needs a store with a replica: {', '.join(WITH_REPLICA)}, not {unable[0]}")
    return options


@contextmanager
def opened(name: str) -> Iterator[str]:
    """Start the servers of a store, and give its address; raises ServerMissing."""
    with ExitStack() as stack:
        yield STORES[name](stack)


def _sqlite(stack: ExitStack) -> str:
    return f"sqlite:///{Path(stack.enter_context(tempfile.TemporaryDirectory())) / 'queue.db'}"


def _postgresql(stack: ExitStack) -> str:
    return stack.enter_context(PostgresServer()).url()


def _pgbouncer(stack: ExitStack) -> str:
    return stack.enter_context(PgBouncer(stack.enter_context(PostgresServer()), pool_size=2)).url()


def _redis(stack: ExitStack) -> str:
    return stack.enter_context(RedisServer()).url()


def _redis_cluster(stack: ExitStack) -> str:
    return stack.enter_context(RedisCluster()).url


def _rabbitmq(stack: ExitStack) -> str:
    memory = stack.enter_context(RedisServer())
    return stack.enter_context(RabbitServer()).with_state(memory.url())


STORES: dict[str, Callable[[ExitStack], str]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "pgbouncer": _pgbouncer,
    "redis": _redis,
    "redis-cluster": _redis_cluster,
    "rabbitmq": _rabbitmq,
}


if __name__ == "__main__":
    os.environ.pop("SHOAL_QUEUE", None)
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")

"""The table of scenarios: what is measured, and the bar it is held to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from shoal.queue.open import open_queue
from tools.bench.cells import Cell, cell, compare, together
from tools.bench.children import run_processes
from tools.bench.draining import drain
from tools.bench.loading import ENQUEUE, load
from tools.bench.memory import memory
from tools.bench.pages import host
from tools.bench.peers.race import race
from tools.bench.report import Bar, Figure, Figures, at_least, at_most, many
from tools.bench.scale import Scale
from tools.bench.stores import SqlStore, Store
from tools.bench.talk import say
from tools.bench.workload import BATCH, POLITE, RUN_ID

ON_SQL, ON_BROKERS = ("postgres", "sqlite"), ("redis", "rabbitmq")
WITH_PEERS = ("postgres", "redis", "rabbitmq")
PER_CLAIM = {
    "postgres": at_least(10_000),
    "sqlite": at_least(15_000),
    "redis": at_least(20_000),
    "rabbitmq": at_least(8_000),
}
ENQUEUE_NEW = {"postgres": at_least(30_000)}
ENQUEUE_SEEN = {"postgres": at_least(60_000)}
STREAM_MB = at_most(200)
FLAT = at_most(1.5)
BLOCKED = at_most(2)
PINNED = {"postgres": at_most(3)}
FAR = timedelta(days=1)

Measure = Callable[[Store, Scale], Figures]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to measure; its name is what `--only` takes."""

    name: str
    store: str
    measure: Measure


def scenarios(scale: Scale) -> list[Scenario]:
    """Return what is measured at this scale, in order."""
    own = [
        Scenario(f"{store}-{name}", store, measure)
        for stores, measures in ((ON_SQL, _on_sql(scale)), (ON_BROKERS, _on_brokers()))
        for store in stores
        for name, measure in measures.items()
    ]
    return [*own, *(Scenario(f"peers-{store}", store, race) for store in WITH_PEERS)]


def _on_sql(scale: Scale) -> dict[str, Measure]:
    return {
        "enqueue": enqueue,
        **({"stream": stream} if scale.stream else {}),
        "settle": settle,
        "pending": pending,
        "one-host": one_host,
        "many-hosts": many_hosts,
        "blocked": blocked,
        "pinned": pinned,
    }


def _on_brokers() -> dict[str, Measure]:
    return {"enqueue": enqueue, "settle": settle, "memory": memory}


async def enqueue(store: Store, scale: Scale) -> Figures:
    """New tasks, then a stream of which nine in ten are known."""
    count = scale.enqueue
    async with store.room() as address:
        say(f"{count:,} new tasks")
        (new,) = await run_processes(1, ENQUEUE, address=address, count=count)
        store.rest(address)
        say(f"{count:,} tasks, nine in ten known")
        (seen,) = await run_processes(1, ENQUEUE, address=address, count=count, seen=count)
    assert (new["added"], seen["added"]) == (count, -(-count // 10))
    for what, result, bars in (("new tasks", new, ENQUEUE_NEW), ("90 % known", seen, ENQUEUE_SEEN)):
        name = f"{store.name} enqueue, {what}"
        yield Figure(
            name, count / result["seconds"], "tasks/s", bars.get(store.name), {"tasks": count, **result}
        )
        yield Figure(f"{name}, memory", result["rss_growth"], "MB more")


async def stream(store: Store, scale: Scale) -> Figures:
    """Many tasks from a generator, and what the process grows to."""
    async with store.room() as address:
        say(f"{scale.stream:,} tasks from a generator")
        (result,) = await run_processes(1, ENQUEUE, address=address, count=scale.stream)
    name = f"{store.name} stream of {scale.stream:,}"
    yield Figure(name, scale.stream / result["seconds"], "tasks/s", None, result)
    yield Figure(f"{name}, peak memory", result["rss_peak"], "MB", STREAM_MB)


async def settle(store: Store, scale: Scale) -> Figures:
    """Claims and settlements by one process and by several, until the run is drained."""
    rates = []
    for claimers in scale.claimers:
        async with store.room() as address:
            say(f"{scale.settle:,} tasks, {many(claimers, 'claimer')}")
            await load(store, address, scale.settle)
            rates.append(await drain(address, claimers))
            await _check_drained(address, scale.settle)
        yield Figure(f"{store.name} claim + settle, {many(claimers, 'claimer')}", rates[-1], "tasks/s")
    yield Figure(f"{store.name} claim + settle, best", max(rates), "tasks/s", PER_CLAIM[store.name])


async def pending(store: Store, scale: Scale) -> Figures:
    """Claims of a run that is many times as long."""
    for tasks in scale.pending:
        say(f"claims at {scale.small:,} and at {tasks:,} pending")
        async with cell(store, scale.small) as small, cell(store, tasks) as large:
            for figure in await _ratios(store, scale, f"{tasks:,} pending", [small, large], FLAT):
                yield figure


async def one_host(store: Store, scale: Scale) -> Figures:
    """Claims of a run that has a single host."""
    say(f"claims of {scale.one_host:,} tasks of one host")
    # With eight at a time, a claim would give eight: here the host takes what it is given.
    settings = replace(POLITE, per_host=2 * BATCH)
    async with (
        cell(store, scale.small) as small,
        cell(store, scale.one_host, hosts=1, settings=settings) as single,
    ):
        for figure in await _ratios(store, scale, "1 host", [small, single], None):
            yield figure


async def many_hosts(store: Store, scale: Scale) -> Figures:
    """Claims of a run that has a great many hosts."""
    tasks, hosts = scale.many_hosts
    say(f"claims of {tasks:,} tasks of {hosts:,} hosts")
    async with cell(store, scale.small) as small, cell(store, tasks, hosts=hosts) as many:
        for figure in await _ratios(store, scale, f"{hosts:,} hosts", [small, many], None):
            yield figure


async def blocked(store: Store, scale: Scale) -> Figures:
    """Claims of a run of whose hosts 99 in 100 are paused."""
    tasks, hosts = scale.blocked
    say(f"claims of {tasks:,} tasks of {hosts:,} hosts, 99 % of them paused")
    async with cell(store, scale.small) as small, cell(store, tasks, hosts=hosts) as mostly:
        paused = [host(number) for number in range(hosts) if number % 100]
        await together([mostly.queue.pause_host(name, FAR) for name in paused])
        for figure in await _ratios(
            store, scale, f"99 % of {hosts:,} hosts paused", [small, mostly], BLOCKED
        ):
            yield figure


async def pinned(store: Store, scale: Scale) -> Figures:
    """Claims while an old transaction keeps the store from clearing away what is finished."""
    say(f"claims after {scale.churn:,} tasks were settled under an open transaction")
    assert isinstance(store, SqlStore)
    async with (
        cell(store, scale.small) as small,
        cell(store, scale.small + scale.churn) as held,
        store.pin(held.address),
    ):
        await drain(held.address, 2, most=scale.churn // 2)
        name = f"open transaction, {scale.churn:,} settled"
        for figure in await _ratios(store, scale, name, [small, held], PINNED.get(store.name)):
            yield figure


async def _ratios(
    store: Store, scale: Scale, name: str, cells: Sequence[Cell], bar: Bar | None
) -> list[Figure]:
    """Compare a cell with the small one."""
    small, large = await compare(cells, scale.claims)
    name = f"{store.name} claim, {name}"
    unit = f"x of {scale.small:,}"
    return [
        Figure(f"{name}, p50", large["p50_ms"], "ms", None, large),
        Figure(f"{name}, p99", large["p99_ms"], "ms"),
        Figure(f"{name}, p50 ratio", large["p50_ms"] / small["p50_ms"], unit, None, small),
        Figure(f"{name}, p99 ratio", large["p99_ms"] / small["p99_ms"], unit, bar),
    ]


async def _check_drained(address: str, tasks: int) -> None:
    """Make sure that nothing was lost on the way to a good figure."""
    async with open_queue(address) as queue:
        stats = await queue.stats(RUN_ID)
    assert (stats.completed, stats.items, stats.remaining) == (tasks, tasks, 0), stats

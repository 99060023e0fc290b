"""Counts are exact: in total, and by step, partition, host and worker."""

from collections.abc import Iterable
from dataclasses import asdict, fields

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import MINUTE, Bury, Counts, Done, Reject, Retry, Run, Stats, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Bench, Clock, lasting
from tests.conformance.helpers import (
    HOUR,
    TEN,
    claim_one,
    every,
    page,
    start,
    start_one,
    the_host,
)

NAMES = [field.name for field in fields(Counts)]


async def one_of_each(queue: Queue, clock: Clock) -> Run:
    """Start a run with one task in every state; the step has the name of the state."""
    run = await start(
        queue,
        page(1, "a.example", step="completed", partition="ca"),
        page(2, "a.example", step="dead", partition="ca"),
        page(3, "b.example", step="dropped", partition="ny"),
        page(4, "b.example", step="leased", partition="ny"),
        page(5, "c.example:81", step="delayed"),
        page(6, "c.example:81", step="pending"),
        Task(step="expired", ttl=MINUTE),
    )
    await clock.forward(MINUTE)
    done = await claim_one(queue, run, steps=["completed"])
    await queue.settle([Done(done, items=[1, 2, 3], rejects=[Reject(data=4, reason="odd")])])
    await queue.settle([Bury(await claim_one(queue, run, steps=["dropped"]), "no")])
    await queue.drop(run.id)
    await queue.settle([Bury(await claim_one(queue, run, steps=["dead"]), "no")])
    await queue.settle([Retry(await claim_one(queue, run, steps=["delayed"]), "later", after=HOUR)])
    await claim_one(queue, run, steps=["leased"])
    return run


def _summed(parts: Iterable[Counts]) -> Counts:
    return Counts(**{name: sum(getattr(part, name) for part in parts) for name in NAMES})


async def test_a_run_counts_its_tasks_by_state_step_partition_and_host(queue: Queue, clock: Clock) -> None:
    run = await one_of_each(queue, clock)
    stats = await queue.stats(run.id)
    completed = Counts(completed=1, items=3, rejected=1)
    others = ("dead", "dropped", "leased", "delayed", "pending", "expired")
    whole = Counts(**dict.fromkeys(("completed", *others), 1), items=3, rejected=1)
    assert Counts(**{name: getattr(stats, name) for name in NAMES}) == whole
    assert (stats.remaining, stats.tasks) == (3, 7)
    assert dict(stats.steps) == {"completed": completed} | {name: Counts(**{name: 1}) for name in others}
    assert dict(stats.partitions) == {
        "ca": Counts(completed=1, dead=1, items=3, rejected=1),
        "ny": Counts(dropped=1, leased=1),
        "": Counts(delayed=1, pending=1, expired=1),
    }
    assert _summed(list(stats.steps.values())) == _summed(list(stats.partitions.values())) == whole
    assert {status.host: status.counts async for status in queue.hosts(run.id)} == {
        "a.example": Counts(completed=1, dead=1, items=3, rejected=1),
        "b.example": Counts(dropped=1, leased=1),
        "c.example:81": Counts(delayed=1, pending=1),
    }
    size = await queue.size()
    assert size.bytes > 0 and size.text


async def test_hosts_of_all_runs_are_counted_together(queue: Queue) -> None:
    run = await start(queue, page(1, "a.example"), page(2, "a.example"))
    await start(queue, page(1, "a.example"), page(1, "b.example"))
    both = {status.host: status.counts.pending async for status in queue.hosts()}
    assert both == {"a.example": 3, "b.example": 1}
    assert [(status.host, status.counts.pending) async for status in queue.hosts(run.id)] == [
        ("a.example", 2)
    ]


async def test_what_waits_in_an_ended_run_counts_in_its_own_list_only(queue: Queue) -> None:
    run = await start(queue, page(1, "a.example"), page(2, "a.example"))
    await start(queue, page(1, "a.example"))
    await queue.finish(run.id, "max_pages=0 reached")
    assert (await the_host(queue)).counts.pending == 1
    assert [host.counts.pending async for host in queue.hosts(run.id)] == [2]
    await queue.resume(run.id)
    assert (await the_host(queue)).counts.pending == 3
    await queue.cancel(run.id)
    assert (await the_host(queue)).counts.pending == 1


async def test_a_host_shows_its_delay_and_how_long_it_is_paused(queue: Queue, clock: Clock) -> None:
    await start(queue, page())
    assert ((await the_host(queue)).delay, (await the_host(queue)).paused_for) == (None, None)
    await queue.slow_host("a.example", TEN)
    await queue.pause_host("a.example", HOUR)
    await clock.forward(HOUR / 2)
    status = await the_host(queue)
    assert status.delay == TEN
    assert HOUR / 2 - MINUTE < status.paused_for <= HOUR / 2
    await clock.forward(HOUR / 2)
    assert (await the_host(queue)).paused_for is None


async def test_a_new_run_counts_nothing(queue: Queue) -> None:
    assert await queue.stats((await start(queue)).id) == Stats()


@lasting
async def test_counts_survive_a_restart(bench: Bench, clock: Clock) -> None:
    run = await one_of_each(bench.queue, clock)
    before = asdict(await bench.queue.stats(run.id))
    queue = await bench.restart()
    assert asdict(await queue.stats(run.id)) == before


async def test_names_with_quotes_and_accents_are_counted_like_any_other(queue: Queue) -> None:
    names = ["it's", 'a "quote"', "naïve, {x}", "100%_", "\\back"]
    run = await start(queue, *(page(step=name, partition=name) for name in names))
    stats = await queue.stats(run.id)
    assert set(stats.steps) == set(stats.partitions) == set(names)
    assert (await claim_one(queue, run, steps=[names[0]], partitions=[names[0]])).task.step == names[0]


async def test_the_counts_of_an_unknown_run_are_refused(queue: Queue) -> None:
    await start_one(queue)
    with pytest.raises(UnknownRun):
        await queue.stats("nowhere")
    with pytest.raises(UnknownRun):
        await every(queue.hosts("nowhere"))

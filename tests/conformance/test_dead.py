"""Dead letters are kept with their error and their attempts, and can be replayed or dropped."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from shoal.core.errors import InvalidSetting, UnknownLetter, UnknownRun
from shoal.core.model import MINUTE, SECOND, Bury, DeadFilter, Retry, Run, Task
from shoal.fleet.status.find import find_letter, whole_ids
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract, only_on
from tests.conformance.helpers import (
    claim_all,
    claim_one,
    every,
    page,
    pages,
    start,
    start_one,
    the_dead,
    url,
)


async def bury_all(queue: Queue, run: Run, error: str = "gone") -> list[str]:
    """Bury every claimable task, and return the ids."""
    leases = await claim_all(queue, run)
    await queue.settle([Bury(lease, error) for lease in leases])
    return [lease.task_id for lease in leases]


async def test_a_dead_letter_tells_the_history_of_its_attempts_the_oldest_first(
    queue: Queue, clock: Clock
) -> None:
    run = await start(
        queue, page(payload={"n": 1}, step="detail", partition="ca", priority=3), max_attempts=9
    )
    await queue.settle([Retry(await claim_one(queue, run, "w1"), TimeoutError("slow"))])
    await claim_one(queue, run, "w2", lease=MINUTE)
    await clock.forward(MINUTE)
    await queue.reclaim()
    await queue.settle([Bury(await claim_one(queue, run, "w3"), "no title")])
    (dead,) = await the_dead(queue, run)
    assert (dead.attempts, dead.error) == (3, "no title")
    assert [(attempt.attempt, attempt.worker_id, attempt.error) for attempt in dead.history] == [
        (1, "w1", "TimeoutError: slow"),
        (2, "w2", "lease lost"),
        (3, "w3", "no title"),
    ]
    times = [attempt.ended_at for attempt in dead.history]
    assert times == sorted(times)
    assert abs(dead.buried_at - clock.now()) < MINUTE
    assert (dead.task.url, dead.task.payload, dead.task.step) == (url(), {"n": 1}, "detail")
    assert (dead.task.partition, dead.task.priority) == ("ca", 3)


async def test_a_dead_letter_has_the_traceback_of_its_last_attempt_and_filters_search_the_error_alone(
    queue: Queue,
) -> None:
    run = await start(queue, page(), max_attempts=9)
    trace = '  File "books.py", line 7, in book\n    \N{SNOWMAN} = page["pri\0ce"]\nKeyError: \'price\''
    await queue.settle([Retry(await claim_one(queue, run), "KeyError: first", traceback=trace)])
    await queue.settle([Bury(await claim_one(queue, run), "KeyError: last", traceback=trace)])
    (dead,) = await the_dead(queue, run)
    assert dead.error == "KeyError: last"
    assert dead.traceback == trace.replace("\0", "")
    assert [(one.error, bool(one.traceback)) for one in dead.history] == [
        ("KeyError: first", False),
        ("KeyError: last", True),
    ]
    assert not await every(queue.dead(run.id, DeadFilter(error="books.py")))
    assert await queue.replay(run.id, where=DeadFilter(error="books.py")) == 0
    assert await queue.replay(run.id, where=DeadFilter(error="last")) == 1
    await queue.settle([Bury(await claim_one(queue, run), "gone")])
    (dead,) = await the_dead(queue, run)
    assert (dead.error, dead.traceback) == ("gone", "")


async def test_dead_letters_come_the_oldest_first(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(4))
    buried = []
    for _ in range(4):
        lease = await claim_one(queue, run)
        await queue.settle([Bury(lease, "gone")])
        buried.append(lease.task_id)
        await clock.forward(SECOND)
    assert [dead.id for dead in await the_dead(queue, run)] == buried


async def test_a_replayed_letter_is_pending_with_its_attempts_reset_and_its_history_kept(
    queue: Queue,
) -> None:
    run, lease = await start_one(queue, max_attempts=2)
    await queue.settle([Retry(lease, "one")])
    await queue.settle([Retry(await claim_one(queue, run), "two")])
    assert await queue.replay(run.id) == 1
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.dead) == (1, 0)
    assert await the_dead(queue, run) == []
    again = await claim_one(queue, run)
    assert (again.task_id, again.attempt) == (lease.task_id, 1)
    await queue.settle([Retry(again, "three")])
    await queue.settle([Retry(await claim_one(queue, run), "four")])
    (dead,) = await the_dead(queue, run)
    assert (dead.attempts, dead.error) == (2, "four")
    assert [attempt.error for attempt in dead.history] == ["one", "two", "three", "four"]


async def test_the_time_to_live_of_a_replayed_letter_starts_again(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(ttl=MINUTE))
    await bury_all(queue, run)
    await clock.forward(2 * MINUTE)
    await queue.replay(run.id)
    await clock.forward(MINUTE / 2)
    await queue.reclaim()
    assert (await queue.stats(run.id)).pending == 1
    await clock.forward(MINUTE / 2)
    await queue.reclaim()
    assert (await queue.stats(run.id)).expired == 1


async def test_a_letter_that_is_replayed_after_a_delay_waits_and_its_time_to_live_starts_then(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, page(1, ttl=MINUTE), page(2))
    ids = await bury_all(queue, run)
    assert await queue.replay(run.id, ids, delay=10 * MINUTE) == 2
    stats = await queue.stats(run.id)
    assert (stats.delayed, stats.pending, stats.dead) == (2, 0, 0)
    await clock.forward(9 * MINUTE)
    await queue.reclaim()
    assert not (await queue.claim("w", run_id=run.id)).leases
    await clock.forward(MINUTE)
    leases = await claim_all(queue, run)
    assert {(lease.task_id, lease.attempt) for lease in leases} == {(ids[0], 1), (ids[1], 1)}


async def test_a_letter_that_is_replayed_after_a_delay_can_expire_later(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(ttl=MINUTE))
    await bury_all(queue, run)
    await queue.replay(run.id, delay=10 * MINUTE)
    await clock.forward(11 * MINUTE)
    await queue.reclaim()
    assert (await queue.stats(run.id)).expired == 1


@by_contract
async def test_a_delay_that_no_replay_can_have_is_refused(queue: Queue) -> None:
    run = await start(queue, page())
    await bury_all(queue, run)
    for delay in (-SECOND, timedelta(days=40_000)):
        with pytest.raises(InvalidSetting, match="delay must be zero to a hundred years"):
            await queue.replay(run.id, delay=delay)
    assert (await queue.stats(run.id)).dead == 1


async def test_replay_takes_the_ids_it_is_given(queue: Queue) -> None:
    run = await start(queue, *pages(4))
    ids = await bury_all(queue, run)
    assert await queue.replay(run.id, ids[:2]) == 2
    assert {dead.id for dead in await the_dead(queue, run)} == set(ids[2:])


async def test_replaying_twice_restores_once(queue: Queue) -> None:
    run = await start(queue, page())
    ids = await bury_all(queue, run)
    assert await queue.replay(run.id, ids * 2) == 1
    assert await queue.replay(run.id, ids) == 0
    assert (await queue.stats(run.id)).pending == 1


@only_on("sqlite", "postgres")
async def test_the_end_of_an_id_is_enough_if_it_is_of_one_letter(queue: Queue) -> None:
    run = await start(queue, *pages(40))
    ids = await bury_all(queue, run)
    wanted, unknown = ids[0], "f" * 32
    ends = (wanted[-n:] for n in range(4, 32))
    short = next(end for end in ends if sum(end in one for one in ids) == 1)
    assert (await find_letter(queue, run.id, short)).id == wanted
    assert (await find_letter(queue, run.id, wanted[:31].upper())).id == wanted
    assert await whole_ids(queue, run.id, [short, wanted, unknown]) == [wanted, unknown]
    await queue.drop(run.id, [wanted])
    for gone in (short, wanted, unknown):
        with pytest.raises(UnknownLetter):
            await find_letter(queue, run.id, gone)


async def test_ids_that_name_no_dead_letter_of_the_run_are_passed_over(queue: Queue) -> None:
    run, other = await start(queue, *pages(2)), await start(queue, *pages(2))
    elsewhere = await bury_all(queue, other)
    pending = (await claim_one(queue, run)).task_id
    ids = [*elsewhere, pending, "0" * 32, "nonsense", ""]
    for verb in (queue.replay, queue.drop):
        assert await verb(run.id, ids) == 0
        assert await verb(run.id, []) == 0
    assert (await queue.stats(other.id)).dead == 2


FILTERS: dict[str, tuple[Mapping[str, Any], set[str]]] = {
    "all": ({}, {"a", "b", "c", "d"}),
    "step": ({"step": "detail"}, {"b", "d"}),
    "partition": ({"partition": "ca"}, {"c", "d"}),
    "no partition": ({"partition": ""}, {"a", "b"}),
    "host": ({"host": "b.example:8080"}, {"c"}),
    "host on any port": ({"host": "B.example"}, {"c"}),
    "host on another port": ({"host": "b.example:80"}, set()),
    "the start of a host": ({"host": "b.exam"}, set()),
    "error": ({"error": "Status: 40"}, {"a", "c"}),
    "error with a percent sign": ({"error": "%"}, {"d"}),
    "error with a bracket": ({"error": "[_"}, {"d"}),
    "error in another case": ({"error": "status: 40"}, set()),
    "two conditions": ({"step": "main", "error": "404"}, {"a"}),
}


async def four_letters(queue: Queue) -> Run:
    """Start a run with four dead letters with the keys a to d."""
    run = await start(
        queue,
        page(1, key="a"),
        page(2, key="b", step="detail"),
        page(3, "b.example:8080", key="c", partition="ca"),
        Task(key="d", step="detail", partition="ca"),
    )
    await bury_letters(queue, run)
    return run


async def bury_letters(queue: Queue, run: Run) -> set[str | None]:
    """Bury those of the four that can be claimed, and return their keys."""
    errors = {"a": "Status: 404", "b": "Timeout", "c": "Status: 403", "d": "100% [_] wrong"}
    leases = await claim_all(queue, run)
    await queue.settle([Bury(lease, errors[lease.task.key or ""]) for lease in leases])
    return {lease.task.key for lease in leases}


async def test_dead_letters_are_listed_replayed_and_dropped_by_filter(queue: Queue) -> None:
    run = await four_letters(queue)
    for name, (conditions, keys) in FILTERS.items():
        where = DeadFilter(**conditions)
        assert {dead.task.key for dead in await every(queue.dead(run.id, where))} == keys, name
        assert await queue.replay(run.id, where=where) == len(keys), name
        assert await bury_letters(queue, run) == keys, name
    assert await queue.drop(run.id, where=DeadFilter(error="Status: 40", partition="")) == 1
    assert await queue.drop(run.id, where=DeadFilter(step="detail", host="B.example")) == 0
    assert {dead.task.key for dead in await the_dead(queue, run)} == {"b", "c", "d"}


async def test_dead_letters_are_found_by_the_time_they_were_buried(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1))
    (old,) = await bury_all(queue, run)
    await clock.forward(10 * MINUTE)
    await queue.enqueue(run.id, [page(2)])
    (new,) = await bury_all(queue, run)
    between = clock.now() - 5 * MINUTE
    assert [dead.id for dead in await the_dead(queue, run, buried_before=between)] == [old]
    assert [dead.id for dead in await the_dead(queue, run, buried_after=between)] == [new]
    assert await queue.drop(run.id, where=DeadFilter(buried_before=between)) == 1
    assert await queue.replay(run.id, where=DeadFilter(buried_before=between)) == 0


async def test_ids_and_a_filter_must_both_be_met(queue: Queue) -> None:
    run = await four_letters(queue)
    letters = await the_dead(queue, run)
    ids = [dead.id for dead in letters if dead.task.key in ("a", "b")]
    assert await queue.replay(run.id, ids, where=DeadFilter(step="detail")) == 1
    assert (await claim_one(queue, run)).task.key == "b"


async def test_a_dropped_letter_is_counted_and_neither_listed_nor_replayed(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    ids = await bury_all(queue, run)
    assert await queue.drop(run.id, ids[:1]) == 1
    assert await queue.drop(run.id, ids[:1]) == 0
    assert await queue.replay(run.id, ids[:1]) == 0
    stats = await queue.stats(run.id)
    assert (stats.dropped, stats.dead, stats.tasks) == (1, 2, 3)
    assert ids[0] not in {dead.id for dead in await the_dead(queue, run)}


async def test_a_thousand_dead_letters_are_streamed_replayed_and_dropped(queue: Queue) -> None:
    run = await start(queue, *pages(1200), per_host=2000)
    ids = await bury_all(queue, run)
    assert {dead.id for dead in await the_dead(queue, run)} == set(ids)
    assert await queue.replay(run.id, ids[:200]) == 200
    assert await queue.drop(run.id) == 1000
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.dead, stats.dropped) == (200, 0, 1000)


async def test_the_dead_of_an_unknown_run_are_refused(queue: Queue) -> None:
    with pytest.raises(UnknownRun):
        await every(queue.dead("nowhere"))
    with pytest.raises(UnknownRun):
        await queue.replay("nowhere")
    with pytest.raises(UnknownRun):
        await queue.drop("nowhere")

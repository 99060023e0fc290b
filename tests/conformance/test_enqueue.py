"""Each key enters a (run, step) once, and a task that cannot be queued does not stop the others."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from shoal.core.errors import InvalidTask, UnknownRun
from shoal.core.model import MINUTE, Bury, Done, EnqueueReport, Run, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract, only_on
from tests.conformance.helpers import HOUR, claim_all, claim_one, page, pages, start, start_one, url

Prepare = Callable[[Queue, Clock], Awaitable[Run]]


async def _pending(queue: Queue, clock: Clock) -> Run:
    return await start(queue, page())


async def _delayed(queue: Queue, clock: Clock) -> Run:
    return await start(queue, page(delay=HOUR))


async def _leased(queue: Queue, clock: Clock) -> Run:
    return (await start_one(queue))[0]


async def _completed(queue: Queue, clock: Clock) -> Run:
    run, lease = await start_one(queue)
    await queue.settle([Done(lease)])
    return run


async def _dead(queue: Queue, clock: Clock) -> Run:
    run, lease = await start_one(queue)
    await queue.settle([Bury(lease, "gone")])
    return run


async def _dropped(queue: Queue, clock: Clock) -> Run:
    run = await _dead(queue, clock)
    await queue.drop(run.id)
    return run


async def _expired(queue: Queue, clock: Clock) -> Run:
    run = await start(queue, page(ttl=MINUTE))
    await clock.forward(MINUTE)
    await queue.reclaim()
    return run


STATES = {
    "pending": _pending,
    "delayed": _delayed,
    "leased": _leased,
    "completed": _completed,
    "dead": _dead,
    "dropped": _dropped,
    "expired": _expired,
}


async def test_promise_4_a_key_enters_once_whatever_its_state_is_now(queue: Queue, clock: Clock) -> None:
    for state, prepare in STATES.items():
        run = await prepare(queue, clock)
        before = await queue.stats(run.id)
        assert getattr(before, state) == 1
        assert await queue.enqueue(run.id, [page(priority=9)]) == EnqueueReport(duplicate=1)
        assert await queue.stats(run.id) == before


async def test_a_key_twice_in_one_batch_enters_once(queue: Queue) -> None:
    run = await start(queue)
    assert await queue.enqueue(run.id, [page(), page(2), page()]) == EnqueueReport(added=2, duplicate=1)


async def test_the_first_of_two_tasks_with_one_key_stays(queue: Queue) -> None:
    run = await start(queue, Task(key="k", payload={"n": 1}, partition="ca", priority=1))
    await queue.enqueue(run.id, [Task(key="k", payload={"n": 2}, partition="ny", priority=9)])
    task = (await claim_one(queue, run)).task
    assert (task.payload, task.partition, task.priority) == ({"n": 1}, "ca", 1)


async def test_a_key_is_free_in_another_step_and_in_another_run(queue: Queue) -> None:
    run = await start(queue, page(), page(step="detail"))
    other = await start(queue, page())
    assert (await queue.stats(run.id)).tasks == 2
    assert (await queue.stats(other.id)).tasks == 1


@by_contract
async def test_spellings_of_one_url_are_one_task_and_it_is_handed_out_canonical(queue: Queue) -> None:
    run = await start(queue, Task(url="HTTPS://A.example:443/x/../1#top"))
    assert (await queue.enqueue(run.id, [page()])).duplicate == 1
    assert (await claim_one(queue, run)).task.url == url()


@by_contract
async def test_the_key_goes_before_the_url(queue: Queue) -> None:
    run = await start(queue, page(1, key="same"), page(1, key="other"))
    assert (await queue.enqueue(run.id, [page(2, key="same")])).duplicate == 1


@by_contract
async def test_the_url_goes_before_the_payload(queue: Queue) -> None:
    run = await start(queue, page(payload={"n": 1}))
    assert (await queue.enqueue(run.id, [page(payload={"n": 2})])).duplicate == 1


@by_contract
async def test_tasks_without_url_and_key_are_distinguished_by_their_payload_in_any_order(
    queue: Queue,
) -> None:
    run = await start(queue, Task(payload={"a": 1, "b": 2}), Task(payload={"a": 2, "b": 1}))
    report = await queue.enqueue(run.id, [Task(payload={"b": 2, "a": 1}), Task()])
    assert report == EnqueueReport(added=1, duplicate=1)


async def test_a_task_comes_back_as_it_went_in(queue: Queue) -> None:
    payload = {
        "text": "Grüße 🐟 \\u0000 'x' \"y\"",
        "nested": {"list": [1, 2.5, None, True, []]},
        "big": 2**53,
    }
    task = page(step="detail", payload=payload, key="k", partition="ca", priority=7, depth=3)
    run = await start(queue, task)
    lease = await claim_one(queue, run)
    got = lease.task
    assert (got.url, got.step, got.payload, got.key) == (url(), "detail", payload, "k")
    assert (got.partition, got.priority, got.depth) == ("ca", 7, 3)
    assert re.fullmatch("[0-9a-f]{32}", lease.task_id)
    assert lease.run_id == run.id


async def test_task_ids_are_unique_in_the_whole_queue(queue: Queue) -> None:
    runs = [await start(queue, page(), page(step="detail"), Task()) for _ in range(2)]
    ids = [lease.task_id for run in runs for lease in await claim_all(queue, run)]
    assert len(set(ids)) == len(ids) == 6


async def test_no_task_at_all_is_no_error(queue: Queue) -> None:
    run = await start(queue)
    assert await queue.enqueue(run.id, []) == EnqueueReport()


@only_on("sqlite", "redis")
async def test_twenty_thousand_tasks_stream_in_from_a_generator(queue: Queue) -> None:
    def source() -> Iterator[Task]:
        for number in range(20_000):
            yield page(number % 19_000, host=f"h{number % 7}.example")

    run = await start(queue)
    report = await queue.enqueue(run.id, source())
    distinct = len({task.url for task in source()})
    assert report == EnqueueReport(added=distinct, duplicate=20_000 - distinct)
    assert (await queue.stats(run.id)).pending == distinct


@by_contract
async def test_tasks_stream_in_from_an_async_generator(queue: Queue) -> None:
    async def source() -> AsyncIterator[Task]:
        for number in range(2_100):
            yield page(number)

    run = await start(queue)
    assert await queue.enqueue(run.id, source()) == EnqueueReport(added=2_100)


async def test_a_source_that_breaks_can_be_streamed_again(queue: Queue) -> None:
    def broken() -> Iterator[Task]:
        yield from pages(3_000)
        raise OSError("the disk is gone")

    run = await start(queue)
    with pytest.raises(OSError, match="the disk is gone"):
        await queue.enqueue(run.id, broken())
    report = await queue.enqueue(run.id, pages(3_001))
    assert report.added + report.duplicate == 3_001
    assert (await queue.stats(run.id)).tasks == 3_001


BAD = {
    "no url": (Task(url="not a url"), "scheme"),
    "not http": (Task(url="ftp://a.example/1"), "ftp"),
    "a megabyte of url": (page("x" * 1_000_000), "bytes"),
    "priority 42": (page(priority=42), "priority"),
    "priority -1": (page(priority=-1), "priority"),
    "nul in the url": (page("a\0b"), "control character"),
    "nul in the key": (page(key="a\0b"), "key"),
    "empty key": (page(key=""), "key"),
    "nul in the payload": (page(payload={"text": "a\0b"}), "NUL"),
    "nul in the step": (page(step="a\0b"), "step"),
    "empty step": (page(step=""), "step"),
    "half a character in the key": (page(key="\ud800"), "key"),
    "half a character in the payload": (page(payload={"text": "\ud800"}), "payload"),
    "payload not JSON": (page(payload={"what": object()}), "payload"),
    "two megabytes of payload": (page(payload={"text": "x" * (2 << 20)}), "payload"),
    "negative delay": (page(delay=-MINUTE), "delay"),
    "a host longer than any name": (page(host=f"{'a.' * 1500}example"), "a DNS name has at most 253"),
    "ttl zero": (page(ttl=MINUTE * 0), "ttl"),
    "negative depth": (page(depth=-1), "depth"),
}


@by_contract
async def test_tasks_that_cannot_be_queued_are_counted_with_their_reasons_and_the_rest_lands(
    queue: Queue,
) -> None:
    refused: dict[int, InvalidTask] = {}
    run = await start(queue)
    tasks = [task for number, (bad, _) in enumerate(BAD.values()) for task in (page(number), bad)]
    report = await queue.enqueue(run.id, tasks, on_invalid=refused.__setitem__)
    assert report == EnqueueReport(added=len(BAD), invalid=len(BAD))
    assert list(refused) == list(range(1, 2 * len(BAD), 2))
    for error, (what, (bad, reason)) in zip(refused.values(), BAD.items(), strict=True):
        assert error.task is bad, what
        assert reason in error.reason, what
    assert (await queue.stats(run.id)).tasks == len(BAD)


@by_contract
async def test_positions_of_refused_tasks_count_over_the_whole_stream(queue: Queue) -> None:
    tasks = pages(5_000)
    wrong = [0, 1_999, 2_000, 4_999]
    for position in wrong:
        tasks[position] = Task(url="")
    positions: list[int] = []
    run = await start(queue)
    report = await queue.enqueue(run.id, tasks, on_invalid=lambda position, _: positions.append(position))
    assert positions == wrong
    assert report == EnqueueReport(added=4_996, invalid=4)


@by_contract
async def test_refused_tasks_are_counted_without_anyone_listening(queue: Queue) -> None:
    run = await start(queue)
    assert await queue.enqueue(run.id, [Task(url=""), page()]) == EnqueueReport(added=1, invalid=1)


async def test_a_delayed_task_is_handed_out_when_its_delay_is_over(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(delay=HOUR))
    assert (await queue.stats(run.id)).delayed == 1
    assert not await claim_all(queue, run)
    await clock.forward(HOUR)
    assert (await claim_one(queue, run)).task.url == url()


async def test_reclaim_makes_a_due_task_pending(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(delay=HOUR))
    await clock.forward(HOUR)
    assert await queue.reclaim() == 0
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.delayed) == (1, 0)


async def test_enqueue_refuses_an_unknown_run(queue: Queue) -> None:
    with pytest.raises(UnknownRun, match="nowhere"):
        await queue.enqueue("nowhere", [page()])

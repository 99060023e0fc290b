"""The hooks of a run are called by one process, and again by another if the first one ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal import Scraper
from shoal.core.errors import HookFailed
from shoal.core.model import Done, Run, Task
from shoal.fleet.run import run_hooks
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.run.run_hooks import RunHooks
from shoal.fleet.status import hook_records as records
from shoal.fleet.status.hook_records import FINISH, START, HookState, hook_records
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock
from tests.conformance.helpers import ME, claim_all, page, start


def scraper_with(**hooks: Callable[[Any], Any]) -> Scraper:
    shop = Scraper("shop")
    for name, function in hooks.items():
        getattr(shop, name)(function)
    return shop


async def finish_tasks(queue: Queue, run: Run) -> None:
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])


async def test_of_many_processes_one_calls_the_hook_and_the_others_wait_for_it(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hooks, "POLL_INTERVAL_SECONDS", 0.02)
    run, called, ended = await start(queue, page()), list[Any](), asyncio.Event()

    async def prepare(run: Any) -> None:
        called.append(run)
        await ended.wait()

    shop = scraper_with(on_run_start=prepare)
    starts = [asyncio.create_task(RunHooks(queue, run.id, shop).start()) for _ in range(5)]
    while not called:
        await asyncio.sleep(0.01)
    await asyncio.sleep(5 * run_hooks.POLL_INTERVAL_SECONDS)  # the others look again, and find it running
    assert not any(task.done() for task in starts)
    ended.set()
    await asyncio.gather(*starts)
    assert [(each.id, each.token, each.state, each.stats.pending) for each in called] == [
        (run.id, 1, "running", 1)
    ]
    await RunHooks(queue, run.id, shop).start()
    assert len(called) == 1


@pytest.mark.parametrize("death", ["its process is gone", "it exceeds its limit"])
async def test_a_process_that_ends_in_a_hook_is_replaced_with_a_higher_token(
    queue: Queue, clock: Clock, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    run, tokens = await start(queue, page()), list[int]()

    async def hang(run: Any) -> None:
        tokens.append(run.token)
        if run.token == 1:
            await asyncio.Event().wait()

    shop = scraper_with(on_run_start=hang)
    first = RunHooks(queue, run.id, shop)
    held = asyncio.create_task(first.start())
    while not tokens:
        await asyncio.sleep(0.01)
    calling = (await hook_records(queue, run.id))[START]
    assert calling.is_running and calling.hook == "on_run_start hang"
    if death == "its process is gone":
        monkeypatch.setattr(records, "has_ended", lambda process, scope, age: process == calling.process)
    else:
        await clock.forward(calling.limit)
    gone = (await hook_records(queue, run.id))[START]
    assert gone.has_failed and gone.state is HookState.INTERRUPTED
    await RunHooks(queue, run.id, shop).start()
    first.stop(is_urgent=True)
    await asyncio.wait([held])
    assert tokens == [1, 2]
    # What the first one wrote at its end was refused.
    record = (await hook_records(queue, run.id))[START]
    assert (record.state, record.token) == (HookState.DONE, 2)


async def test_a_failure_is_recorded_and_the_next_start_calls_the_hook_again(queue: Queue) -> None:
    run, fails = await start(queue, page()), [True]

    def prepare(run: Any) -> None:
        if fails[0]:
            raise ValueError("no such table")

    shop = scraper_with(on_run_start=prepare)
    with pytest.raises(HookFailed, match="on_run_start prepare failed: ValueError: no such table"):
        await RunHooks(queue, run.id, shop).start()
    record = (await hook_records(queue, run.id))[START]
    assert record.has_failed
    assert (record.hook, record.error) == ("on_run_start prepare", "ValueError: no such table")
    fails[0] = False
    await RunHooks(queue, run.id, shop).start()
    assert (await hook_records(queue, run.id))[START].state is HookState.DONE


async def test_a_hook_that_is_stopped_is_interrupted_and_called_again_by_the_next_start(queue: Queue) -> None:
    run, called = await start(queue, page()), asyncio.Event()

    async def hang(run: Any) -> None:
        called.set()
        await asyncio.Event().wait()

    hooks = RunHooks(queue, run.id, scraper_with(on_run_start=hang))
    held = asyncio.create_task(hooks.start())
    await called.wait()
    hooks.stop(is_urgent=False)
    await asyncio.sleep(0)
    assert not held.done(), "the first stop lets it finish"
    hooks.stop(is_urgent=True)
    await held
    record = (await hook_records(queue, run.id))[START]
    assert (record.hook, record.error) == ("on_run_start hang", "it was stopped before it returned")
    await RunHooks(queue, run.id, scraper_with(on_run_start=lambda run: None)).start()
    assert (await hook_records(queue, run.id))[START].state is HookState.DONE


async def test_the_end_of_a_run_is_reported_once_with_its_counts_and_again_if_it_was_resumed(
    queue: Queue,
) -> None:
    run, ends = await start(queue, page()), list[Any]()
    shop = scraper_with(on_run_finish=ends.append)
    processes = [RunHooks(queue, run.id, shop) for _ in range(3)]
    for each in processes:
        await each.start()
    await finish_tasks(queue, run)
    await asyncio.gather(*(each.finish() for each in processes))
    assert [(end.token, end.state, end.stats.completed) for end in ends] == [(1, "finished", 1)]
    await queue.enqueue(run.id, [Task(url="https://example.com/more")])
    await RunHooks(queue, run.id, shop).start()  # this one is killed before the end
    await finish_tasks(queue, run)
    later = RunHooks(queue, run.id, shop)
    await later.start()
    await later.finish()
    assert [(end.token, end.stats.completed) for end in ends] == [(1, 1), (2, 2)]
    await RunHooks(queue, run.id, shop).finish()
    assert len(ends) == 2


async def test_an_end_whose_hook_fails_is_reported_and_called_again_by_the_next_process(queue: Queue) -> None:
    run, said, calls = await start(queue, page()), list[str](), list[int]()

    def report(run: Any) -> None:
        calls.append(run.token)
        if len(calls) == 1:
            raise ValueError("no folder")

    shop = scraper_with(on_run_finish=report)
    await finish_tasks(queue, run)
    await RunHooks(queue, run.id, shop, said.append).finish()
    assert len(said) == 1 and said[0].endswith("ValueError: no folder")
    await RunHooks(queue, run.id, shop, said.append).finish()
    assert calls == [1, 2] and len(said) == 1


async def test_a_cancelled_run_ends_when_its_last_lease_does(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hooks, "POLL_INTERVAL_SECONDS", 0.02)
    run, ends = await start(queue, page()), list[Any]()
    hooks = RunHooks(queue, run.id, scraper_with(on_run_finish=ends.append))
    leases = (await queue.claim(ME, run_id=run.id)).leases
    await queue.cancel(run.id)
    ending = asyncio.create_task(hooks.finish())
    await asyncio.sleep(0.1)
    assert not ends
    await queue.settle([Done(lease) for lease in leases])
    await ending
    assert [(end.state, end.stats.completed) for end in ends] == [("cancelled", 1)]


async def test_a_run_that_goes_on_with_a_higher_page_limit_has_not_ended(queue: Queue) -> None:
    run, ends = await start(queue, page(1), page(2)), list[Any]()
    hooks = RunHooks(queue, run.id, scraper_with(on_run_finish=ends.append))
    await queue.settle([Done(lease) for lease in (await queue.claim(ME, run_id=run.id, limit=1)).leases])
    await hooks.finish()
    assert not ends
    await queue.finish(run.id, "max_pages=1 reached")
    await hooks.finish()
    assert [(end.state, end.stats.remaining) for end in ends] == [("partial", 1)]


async def test_a_run_that_is_deleted_takes_the_record_of_its_hooks_along(queue: Queue) -> None:
    run = await start(queue, page())
    await RunHooks(queue, run.id, scraper_with(on_run_start=lambda run: None)).start()
    assert START in await hook_records(queue, run.id) and FINISH not in await hook_records(queue, run.id)
    await purge(queue, run.id)
    assert not await hook_records(queue, run.id)

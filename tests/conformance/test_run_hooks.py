"""The hooks of a run are called once in the fleet, and again by another worker if the first one dies."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal import Scraper
from shoal.core.errors import HookFailed
from shoal.core.model import Done, Run, Task
from shoal.fleet.run.lifecycle import purge
from shoal.queue.contract import Queue
from shoal.worker.run_hooks import calls
from shoal.worker.run_hooks.calls import RunHookCalls, ThisWorker
from shoal.worker.run_hooks.record import (
    FINISH,
    HOLD_TIME,
    MAX_FAILURES,
    REST_TIME,
    START,
    HookState,
    allow_calls,
    hook_records,
)
from shoal.worker.scheduler import Stop
from tests.conformance.backends import Clock
from tests.conformance.helpers import ME, claim_all, page, start


def scraper_with(**hooks: Callable[[Any], Any]) -> Scraper:
    shop = Scraper("shop")
    for name, function in hooks.items():
        getattr(shop, name)(function)
    return shop


def worker(
    queue: Queue,
    run: Run,
    shop: Scraper,
    name: str,
    *,
    dies: bool = False,
    launch: str = "",
    report: Callable[[str], None] = print,
) -> RunHookCalls:
    """Return the hook calls of a worker; the process of one that `dies` is gone for all others."""
    this = ThisWorker(name, "here", lambda pid: not dies, launch)
    return RunHookCalls(queue, run, shop, this, report=report)


async def finish_tasks(queue: Queue, run: Run) -> None:
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])


async def test_of_many_workers_one_calls_the_hook_and_the_others_wait_for_it(queue: Queue) -> None:
    run, called, ended = await start(queue, page()), list[Any](), asyncio.Event()

    async def prepare(run: Any) -> None:
        called.append(run)
        await ended.wait()

    shop = scraper_with(on_run_start=prepare)
    starts = [asyncio.create_task(worker(queue, run, shop, f"w{index}").start()) for index in range(5)]
    while not called:
        await asyncio.sleep(0.01)
    assert not any(task.done() for task in starts)
    ended.set()
    await asyncio.gather(*starts)
    assert [(each.id, each.token, each.state, each.stats.pending) for each in called] == [
        (run.id, 1, "running", 1)
    ]
    await worker(queue, run, shop, "late").start()
    assert len(called) == 1


@pytest.mark.parametrize("death", ["its process is gone", "it is silent"])
async def test_a_holder_that_dies_is_replaced_with_a_higher_token(
    queue: Queue, clock: Clock, death: str
) -> None:
    run, tokens = await start(queue, page()), list[int]()

    async def hang(run: Any) -> None:
        tokens.append(run.token)
        if run.token == 1:
            await asyncio.Event().wait()

    shop = scraper_with(on_run_start=hang)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "RENEW_INTERVAL", 1_000.0)
        first = worker(queue, run, shop, "first")
        held = asyncio.create_task(first.start())
        while not tokens:
            await asyncio.sleep(0.01)
        if death == "it is silent":
            await clock.forward(HOLD_TIME)
        await worker(queue, run, shop, "second", dies=death != "it is silent").start()
        first.stop(Stop.RELEASE)
        await held
    assert tokens == [1, 2]
    # What the first one wrote at its end was refused.
    record = (await hook_records(queue, run.id))[START]
    assert (record.state, record.token, record.worker) == (HookState.DONE, 2, "second")


async def test_a_holder_that_has_lost_its_lock_is_cancelled(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "RENEW_INTERVAL", 0.05)
    run, tokens, cancelled = await start(queue, page()), list[int](), list[int]()

    async def prepare(run: Any) -> None:
        tokens.append(run.token)
        if run.token == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(1)
                raise

    shop = scraper_with(on_run_start=prepare)
    first = asyncio.create_task(worker(queue, run, shop, "first").start())
    while not tokens:
        await asyncio.sleep(0.01)
    await worker(queue, run, shop, "second", dies=True).start()
    await first
    assert (tokens, cancelled) == ([1, 2], [1])


async def test_a_failure_is_recorded_named_to_those_who_wait_and_tried_again_by_the_next_start(
    queue: Queue,
) -> None:
    run, fails, ended = await start(queue, page()), [True], asyncio.Event()

    async def prepare(run: Any) -> None:
        await ended.wait()
        if fails[0]:
            raise ValueError("no such table")

    shop = scraper_with(on_run_start=prepare)
    starts = [asyncio.create_task(worker(queue, run, shop, f"w{index}").start()) for index in range(3)]
    while START not in await hook_records(queue, run.id):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    ended.set()
    errors = await asyncio.gather(*starts, return_exceptions=True)
    assert all(isinstance(error, HookFailed) for error in errors), errors
    assert all("on_run_start prepare failed: ValueError: no such table" in str(error) for error in errors)
    record = (await hook_records(queue, run.id))[START]
    assert (
        record.has_failed and record.as_json()["error"] == "on_run_start prepare: ValueError: no such table"
    )
    fails[0] = False
    await worker(queue, run, shop, "later").start()
    assert (await hook_records(queue, run.id))[START].state is HookState.DONE


async def test_a_failed_start_is_not_tried_again_by_those_that_were_started_with_it(queue: Queue) -> None:
    run, called = await start(queue, page()), list[int]()

    def prepare(run: Any) -> None:
        called.append(run.token)
        raise ValueError("no such table")

    shop = scraper_with(on_run_start=prepare)
    for name in ("first", "late"):
        with pytest.raises(HookFailed, match="no such table"):
            await worker(queue, run, shop, name, launch="one").start()
    assert called == [1]
    with pytest.raises(HookFailed):
        await worker(queue, run, shop, "resumed", launch="two").start()
    assert called == [1, 2]


async def test_launches_on_many_machines_call_a_failing_hook_three_times_together(
    queue: Queue, clock: Clock
) -> None:
    run, tokens = await start(queue, page()), list[int]()

    async def prepare(run: Any) -> None:
        tokens.append(run.token)
        raise ValueError("no such table")

    shop = scraper_with(on_run_start=prepare)

    async def launch(machine: str) -> list[BaseException | None]:
        """Start the workers of a machine again and again, as a service does."""
        names = [f"{machine}{index}" for index in range(4)]
        starts = (worker(queue, run, shop, name, launch=name).start() for name in names)
        return [(await asyncio.gather(one, return_exceptions=True))[0] for one in starts]

    async def launch_two() -> list[BaseException | None]:
        first, second = await asyncio.gather(launch("a"), launch("b"))
        return [*first, *second]

    errors = await launch_two()
    assert len(tokens) == MAX_FAILURES
    assert all(isinstance(error, HookFailed) and "no such table" in str(error) for error in errors), errors
    assert sum("3 calls in a row have failed" in str(error) for error in errors) >= len(errors) - 6
    # Those who resume the run together do not begin to count again; a person who resumes it later does.
    await allow_calls(queue, run.id)
    await launch_two()
    assert len(tokens) == MAX_FAILURES
    await clock.forward(HOLD_TIME)
    await allow_calls(queue, run.id)
    await launch_two()
    assert len(tokens) == 2 * MAX_FAILURES
    await clock.forward(REST_TIME)
    await launch_two()
    assert len(tokens) == 3 * MAX_FAILURES
    record = (await hook_records(queue, run.id))[START]
    assert (record.state, record.failures) == (HookState.FAILED, MAX_FAILURES)


@pytest.mark.parametrize("kind", [START, FINISH])
async def test_a_hook_that_ends_each_worker_has_failed_after_a_few_calls(
    queue: Queue, clock: Clock, kind: str
) -> None:
    run, tokens, called = await start(queue, page()), list[int](), asyncio.Event()

    async def die(run: Any) -> None:
        tokens.append(run.token)
        called.set()
        await asyncio.Event().wait()

    def begin(shop: Scraper, name: str, launch: str) -> "asyncio.Task[None]":
        mine = worker(queue, run, shop, name, dies=True, launch=launch)

        async def run_worker() -> None:
            await mine.start()
            await mine.finish()

        return asyncio.create_task(run_worker())

    shop = Scraper("shop")
    getattr(shop, kind)(lambda run: None)
    getattr(shop, kind)(die)
    await finish_tasks(queue, run)
    dead = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "RENEW_INTERVAL", 1_000.0)
        for index in range(MAX_FAILURES):
            called.clear()
            dead.append(begin(shop, f"w{index}", "one"))
            await called.wait()
        for index in range(3):  # replaced, or started late
            ending = begin(shop, f"late{index}", "one")
            if kind == START:
                with pytest.raises(
                    HookFailed, match="die failed: its worker process ended during the call, 3"
                ):
                    await ending
            else:
                await ending
        record = (await hook_records(queue, run.id))[kind]
        assert record.as_json() == {
            "state": "failed",
            "token": MAX_FAILURES + 1,
            "worker": f"w{MAX_FAILURES - 1}",
            "hook": f"{kind} die",
            "error": f"{kind} die: its worker process ended during the call, {MAX_FAILURES} times in a row",
        }
        ending = begin(shop, "elsewhere", "two")
        await asyncio.wait([ending])
        assert kind == FINISH or isinstance(ending.exception(), HookFailed)
        assert tokens == [1, 2, 3]
        await clock.forward(HOLD_TIME)
        await allow_calls(queue, run.id)
        called.clear()
        dead.append(begin(shop, "resumed", "three"))
        await called.wait()
    assert tokens == [1, 2, 3, MAX_FAILURES + 2]
    for task in dead:
        task.cancel()
    await asyncio.wait(dead)


async def test_a_hook_whose_worker_is_gone_is_reported_as_interrupted(queue: Queue, clock: Clock) -> None:
    run, called = await start(queue, page()), asyncio.Event()

    async def hang(run: Any) -> None:
        called.set()
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "RENEW_INTERVAL", 1_000.0)
        first = worker(queue, run, scraper_with(on_run_start=hang), "first")
        held = asyncio.create_task(first.start())
        await called.wait()
        await clock.forward(HOLD_TIME)
        record = (await hook_records(queue, run.id))[START]
        assert record.has_failed and record.state is HookState.INTERRUPTED
        assert record.as_json()["error"] == "on_run_start hang: its worker ended during the call"
        first.stop(Stop.RELEASE)
        await held
    record = (await hook_records(queue, run.id))[START]
    assert record.as_json()["error"] == "on_run_start hang: it was stopped before it returned"


async def test_the_end_of_a_run_is_reported_once_with_its_counts_and_again_if_it_was_resumed(
    queue: Queue,
) -> None:
    run, ends = await start(queue, page()), list[Any]()
    shop = scraper_with(on_run_finish=ends.append)
    workers = [worker(queue, run, shop, f"w{index}") for index in range(3)]
    for each in workers:
        await each.start()
    await finish_tasks(queue, run)
    await asyncio.gather(*(each.finish() for each in workers))
    assert [(end.token, end.state, end.stats.completed) for end in ends] == [(1, "finished", 1)]
    await queue.enqueue(run.id, [Task(url="https://example.com/more")])
    again = worker(queue, run, shop, "again")
    await again.start()
    await finish_tasks(queue, run)
    # It dies before it calls the hook: another worker finds that it is due.
    later = worker(queue, run, shop, "later")
    await later.start()
    await later.finish()
    assert [(end.token, end.stats.completed) for end in ends] == [(1, 1), (2, 2)]
    await worker(queue, run, shop, "last").finish()
    assert len(ends) == 2


async def test_a_failed_end_is_reported_once_for_the_workers_of_a_launch(queue: Queue) -> None:
    run, said = await start(queue, page()), list[str]()

    def fail(run: Any) -> None:
        raise ValueError("no folder")

    shop = scraper_with(on_run_finish=fail)
    workers = [
        worker(queue, run, shop, f"w{index}", launch=launch, report=said.append)
        for index, launch in enumerate(("here", "here", "there"))
    ]
    for each in workers:
        await each.start()
    await finish_tasks(queue, run)
    for each in workers:
        await each.finish()
    here, there = said
    assert here.endswith("ValueError: no folder") and there.endswith("ValueError: no folder (in worker w0)")


async def test_a_cancelled_run_ends_when_its_last_lease_does(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ends, waits = await start(queue, page()), list[Any](), asyncio.Event()

    async def wait(self: RunHookCalls, seconds: float) -> None:
        waits.set()
        await asyncio.sleep(0.01)

    monkeypatch.setattr(RunHookCalls, "_wait", wait)
    mine = worker(queue, run, scraper_with(on_run_finish=ends.append), "mine")
    await mine.start()
    leases = (await queue.claim(ME, run_id=run.id)).leases
    await queue.cancel(run.id)
    ending = asyncio.create_task(mine.finish())
    await waits.wait()
    assert not ends
    await queue.settle([Done(lease) for lease in leases])
    await ending
    assert [(end.state, end.stats.completed) for end in ends] == [("cancelled", 1)]


async def test_a_run_that_is_deleted_takes_the_record_of_its_hooks_along(queue: Queue) -> None:
    run = await start(queue, page())
    shop = scraper_with(on_run_start=lambda run: None)
    await worker(queue, run, shop, "first").start()
    assert START in await hook_records(queue, run.id) and FINISH not in await hook_records(queue, run.id)
    await purge(queue, run.id)
    assert not await hook_records(queue, run.id)

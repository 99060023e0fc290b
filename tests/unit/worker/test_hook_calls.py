"""Hooks that cancel, hang or fail cost their own task only, and are named."""

import asyncio
import contextvars
import threading
import time
from datetime import timedelta

import pytest

from shoal import Page, Scraper
from shoal.core.errors import HookFailed
from shoal.core.http import Response
from shoal.core.model import MINUTE, ZERO, Done, Retry, Task
from shoal.worker import hook_calls
from shoal.worker.attempts import ProcessorTools, TaskWaits
from shoal.worker.counters import WorkerCounters
from shoal.worker.hook_calls import open_resources
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.scheduler import Scheduler
from tests.unit.builders import make_lease, make_run

TENANT = contextvars.ContextVar("tenant")


class Host:
    async def fetch(self, request):
        await asyncio.sleep(0)  # where a pending cancellation would be raised
        return Response(url=request.url, status=200, body=b"page")

    async def close(self):
        pass


@pytest.fixture
def process(markers, threads):
    async def handle(shop, *, is_stopping=False):
        run = make_run(settings=shop.run_settings())
        processor = TaskProcessor(
            shop,
            run,
            ProcessorTools({"http": Host()}, None, threads, markers),
            WorkerCounters(),
            waits=TaskWaits(Scheduler(lease=MINUTE, gap=ZERO, concurrency=1)),
            is_stopping=lambda: is_stopping,
        )
        lease = make_lease(Task(url="https://shop.test/x", step="page"))
        async with asyncio.timeout(20):
            return await processor.process(ScheduledLease(lease, 0.0), 1)

    return handle


def shop_with(kind=None, hook=None, *, lease="5m"):
    shop = Scraper("shop", robots=False, rate=None, lease=lease)

    @shop.step
    async def page(page: Page):
        yield {"body": page.body.decode()}

    if kind:
        getattr(shop, kind)(hook)
    return shop


async def raise_cancelled(*_):
    raise asyncio.CancelledError


def cancel(*_):
    asyncio.current_task().cancel()


async def cancel_and_return(*_):
    asyncio.current_task().cancel()


async def cancel_and_wait(*_):
    asyncio.current_task().cancel()
    await asyncio.sleep(60)


CANCELLING = [raise_cancelled, cancel, cancel_and_return, cancel_and_wait]


@pytest.mark.parametrize("kind", ["on_request", "on_response"])
@pytest.mark.parametrize("hook", CANCELLING)
async def test_a_hook_that_cancels_its_task_fails_it_by_name(process, kind, hook):
    shop, failed = shop_with(kind, hook), []
    shop.on_error(failed.append)
    outcome = await process(shop)
    assert isinstance(outcome, Retry) and outcome.asked is (kind == "on_response")
    assert f"StepEnded: The hook {kind} {hook.__name__} raised CancelledError" in outcome.error
    assert len(failed) == 1
    await asyncio.sleep(0)  # nothing is left to be raised


@pytest.mark.parametrize("hook", CANCELLING)
async def test_a_hook_for_errors_that_cancels_its_task_is_named(process, hook):
    shop = shop_with("on_response", lambda response: 1 / 0)
    shop.on_error(hook)
    outcome = await process(shop)
    assert f"StepEnded: The hook on_error {hook.__name__} raised CancelledError" in outcome.error
    await asyncio.sleep(0)


async def test_a_hook_of_items_that_cancels_its_task_fails_it(process):
    outcome = await process(shop_with("on_item", cancel_and_wait))
    assert isinstance(outcome, Retry) and "raised CancelledError" in outcome.error


@pytest.mark.parametrize(
    ("attribute", "value", "error"),
    [
        ("headers", None, "on_request change made a request that cannot be sent. headers must be"),
        ("url", 5, "on_request change made a request that cannot be sent. Cannot fetch URL '5'"),
        ("method", "FETCH", "on_request change made a request that cannot be sent. "),
        ("body", "text", "on_request change set the body to a str"),
    ],
)
async def test_a_hook_that_makes_a_wrong_request_is_named(process, attribute, value, error):
    def change(request):
        setattr(request, attribute, value)

    outcome = await process(shop_with("on_request", change))
    assert error in outcome.error


async def test_a_hook_that_changes_a_response_in_place_is_told_what_to_return(process):
    def change(response):
        response.body = b""

    outcome = await process(shop_with("on_response", change))
    assert "on_response change: cannot assign to field 'body'" in outcome.error
    assert "return dataclasses.replace(response, body=…)" in outcome.error


async def test_a_worker_that_stops_cancels_a_hook(process):
    with pytest.raises(asyncio.CancelledError):
        await process(shop_with("on_request", cancel_and_wait), is_stopping=True)


async def test_an_error_of_a_hook_for_errors_shows_the_first_error_too(process):
    shop = shop_with("on_response", lambda response: 1 / 0)

    @shop.on_error
    def decide(failed):
        raise KeyError("no such rule")

    outcome = await process(shop)
    assert outcome.error.startswith("KeyError: ") and "no such rule" in outcome.error
    assert "(on_error was called for ZeroDivisionError: division by zero)" in outcome.error


async def test_a_request_that_hooks_leave_alone_is_sent_as_it_was(process):
    assert isinstance(await process(shop_with("on_request", lambda request: None)), Done)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_whatever_a_start_raises_it_is_named(error):
    def connect(resources):
        raise error

    with pytest.raises(HookFailed, match=f"The hook on_start connect failed: {error.__name__}"):
        async with open_resources(shop_with("on_start", connect), None, None):
            raise AssertionError


@pytest.mark.parametrize("hook", CANCELLING)
async def test_a_start_that_cancels_its_task_is_named_and_ends_no_other(hook):
    with pytest.raises(HookFailed, match=f"on_start {hook.__name__} failed: CancelledError"):
        async with open_resources(shop_with("on_start", hook), None, None):
            raise AssertionError
    assert not asyncio.current_task().cancelling()
    await asyncio.sleep(0)  # nothing is left to be raised


async def test_a_start_is_cancelled_with_its_worker():
    ended = asyncio.Event()

    async def connect(resources):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), open_resources(shop_with("on_start", connect), None, None):
            raise AssertionError
    assert ended.is_set()


async def test_a_start_finds_the_queue_and_the_run_of_its_worker_in_the_resources():
    found = []

    def connect(resources):
        found.extend([resources.queue, resources.run])

    async with open_resources(shop_with("on_start", connect), "queue", "run"):
        assert found == ["queue", "run"]


async def test_steps_see_the_context_variables_that_a_start_has_set():
    async def connect(resources):
        TENANT.set("acme")

    async with open_resources(shop_with("on_start", connect), None, None):
        assert TENANT.get() == "acme"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_start_that_hangs_is_named_while_it_does(monkeypatch, is_async):
    monkeypatch.setattr(hook_calls, "SLOW_START", timedelta(milliseconds=20))
    reported, texts = threading.Event(), []

    async def connect(resources):
        while not reported.is_set():
            await asyncio.sleep(0.01) if is_async else time.sleep(0.01)

    def report(text):
        texts.append(text)
        reported.set()

    async with asyncio.timeout(20), open_resources(shop_with("on_start", connect), None, None, report):
        pass
    assert len(texts) == 1 and "on_start connect has been running" in texts[0] and "240 s" in texts[0]


async def test_a_start_has_a_time_limit(monkeypatch):
    monkeypatch.setattr(hook_calls, "START_TIMEOUT", timedelta(milliseconds=20))

    async def connect(resources):
        await asyncio.sleep(1000)

    with pytest.raises(HookFailed, match=r"on_start connect failed: it took longer than 0.02 s"):
        async with open_resources(shop_with("on_start", connect), None, None):
            raise AssertionError

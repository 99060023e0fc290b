"""One task from its lease to its outcome, with a host that the test makes up."""

import asyncio
from datetime import timedelta
from unittest.mock import AsyncMock, MagicMock

import pytest

from shoal import Page, Scraper
from shoal.core.errors import InvalidInput, NoProxyLeft, TokensResting
from shoal.core.http import Response
from shoal.core.model import (
    MINUTE,
    SECOND,
    ZERO,
    Bury,
    Done,
    Fate,
    Release,
    Retry,
    Task,
)
from shoal.core.tasks import exact_time
from shoal.scrape.requests import own_step
from shoal.worker.attempts import ProcessorTools, TaskWaits
from shoal.worker.counters import WorkerCounters
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.scheduler import Scheduler
from shoal.worker.telemetry.observer import Observer
from tests.unit.builders import make_lease, make_run


class Host:
    """Responds with a status, or raises an error."""

    def __init__(self, status=200, error=None):
        self.status, self.error, self.requests = status, error, []

    async def fetch(self, request):
        self.requests.append(request)
        if self.error:
            raise self.error
        await request.on_bytes(4)
        return Response(url=request.url, status=self.status, body=b"page")

    async def close(self):
        pass


@pytest.fixture
def process(markers, threads):
    """Process a task of this step, and return its outcome; the counters are attributes."""

    async def handle(step, host=None, *, attempt=1, depth=0, tools=None, options=None, **settings):
        scraper = Scraper("shop", robots=False, **settings)
        scraper.step(step, **options) if options else scraper.step(step)
        run = make_run(settings=scraper.run_settings())
        handle.scheduler = Scheduler(lease=MINUTE, gap=ZERO, concurrency=1)
        handle.waits = TaskWaits(handle.scheduler)
        handle.tally = WorkerCounters()
        handle.processor = processor = TaskProcessor(
            scraper,
            run,
            ProcessorTools({"http": host or Host()}, None, threads, markers, **(tools or {})),
            handle.tally,
            waits=handle.waits,
        )
        lease = make_lease(Task(url="https://shop.test/x", step=step.__name__, depth=depth), attempt=attempt)
        return await processor.process(ScheduledLease(lease, 0.0), 1)

    return handle


async def page(page: Page):
    yield {"body": page.body.decode()}


def in_a_thread(page: Page):
    yield {"body": page.body.decode()}


@pytest.mark.parametrize("step", [page, in_a_thread])
async def test_a_page_yields_what_its_step_yields_and_its_memory_is_released(process, step):
    outcome = await process(step)
    assert isinstance(outcome, Done) and outcome.items == [{"body": "page"}] and outcome.asked
    assert process.tally.bytes == 4 and process.waits.memory.used == 0


@pytest.mark.parametrize("step", [page, in_a_thread])
async def test_observers_are_told_of_a_task_its_fetch_and_its_step(process, step):
    observer = MagicMock(spec=Observer)
    await process(step, tools={"observers": [observer]})
    begun, fetched, stepped = observer.method_calls
    assert begun[0] == "on_begin" and fetched[0] == "on_fetch" and stepped[0] == "on_step_end"
    assert stepped.args[0].task_id == "t" and stepped.args[1] <= stepped.args[2]


async def test_the_time_of_a_step_begins_when_it_may_run(process, monkeypatch):
    observer, began = MagicMock(spec=Observer), []
    begin_step = TaskWaits.begin_step

    async def begin_late(waits, number):
        await begin_step(waits, number)
        began.append(exact_time())

    monkeypatch.setattr(TaskWaits, "begin_step", begin_late)
    await process(page, tools={"observers": [observer]})
    assert observer.on_step_end.call_args.args[1] >= began[0]


async def test_a_failed_fetch_releases_its_memory_and_is_retried(process):
    outcome = await process(page, Host(status=500))
    assert isinstance(outcome, Retry) and process.waits.memory.used == 0


async def test_a_second_attempt_at_a_task_at_most_once_sends_no_request(process):
    host = Host()
    outcome = await process(page, host, attempt=2, delivery="at_most_once")
    assert isinstance(outcome, Bury) and not outcome.asked and host.requests == []


async def test_a_task_at_most_once_is_buried_when_its_request_may_have_been_sent_and_else_postponed(process):
    class SendingHost(Host):
        async def fetch(self, request):
            request.on_sent()
            return await super().fetch(request)

    error = TokensResting("t1 is exhausted", ZERO)
    outcome = await process(page, SendingHost(error=error), delivery="at_most_once")
    assert isinstance(outcome, Bury) and "TokensResting" in outcome.error and "at_most_once" in outcome.error
    outcome = await process(page, Host(error=error), delivery="at_most_once")
    assert isinstance(outcome, Release)


async def test_a_step_at_most_once_that_has_its_page_is_not_postponed_by_a_request_of_its_own(process):
    class OnePage(Host):
        async def fetch(self, request):
            if self.requests:
                raise NoProxyLeft("every proxy is benched", ZERO)
            request.on_sent()
            return await super().fetch(request)

    async def asking(page: Page):
        await page.request("https://shop.test/more")
        yield {}

    outcome = await process(asking, OnePage(), delivery="at_most_once")
    assert isinstance(outcome, Bury) and "NoProxyLeft" in outcome.error


async def test_a_page_that_the_settings_skip_sends_no_request(process):
    host = Host()
    outcome = await process(page, host, skip="https://shop.test/*")
    assert isinstance(outcome, Bury) and "skip" in outcome.error and host.requests == []


async def test_a_followed_link_to_a_missing_page_is_done_and_counted(process):
    done = await process(page, Host(status=404), depth=1)
    assert isinstance(done, Done)
    process.processor.count_settled(done, Fate.ACCEPTED)
    process.processor.count_settled(done, Fate.ACCEPTED)
    assert process.tally.missing.count == 1
    assert isinstance(await process(page, Host(status=404)), Bury)


async def links(page: Page):
    yield page.follow("https://elsewhere.test/")


async def test_what_a_task_has_left_out_is_counted_once_it_is_settled_and_never_if_it_is_late(process):
    late = await process(links, scope="host")
    assert process.tally.dropped == {}
    process.processor.count_settled(late, Fate.STALE)
    assert process.tally.dropped == {}
    in_time = await process(links, scope="host")
    process.processor.count_settled(in_time, Fate.ACCEPTED)
    assert process.tally.dropped == {"out of scope": 1}


async def test_the_first_page_that_a_step_has_handled_is_remembered_and_no_missing_one(process):
    await process(page, Host(status=404), depth=1)
    assert process.tally.first_page is None
    await process(page)
    assert process.tally.first_page == "https://shop.test/x"
    both = WorkerCounters() + process.tally + WorkerCounters(first_page="https://shop.test/y")
    assert both.first_page == "https://shop.test/x"


async def test_a_task_without_a_proxy_goes_back_uncharged(process):
    outcome = await process(page, Host(error=NoProxyLeft("none", 5 * SECOND)))
    assert isinstance(outcome, Release) and outcome.after == 5 * SECOND


async def hang(page: Page):
    await asyncio.Event().wait()
    yield {}


async def test_a_step_that_exceeds_its_time_is_retried(process):
    outcome = await process(hang, options={"lease": timedelta(milliseconds=10)})
    assert isinstance(outcome, Retry) and outcome.error.startswith("StepTimeout")


async def leave(page: Page):
    raise SystemExit(3)
    yield {}


def leave_a_thread(page: Page):
    raise SystemExit(3)
    yield {}


async def cancel_itself(page: Page):
    raise asyncio.CancelledError
    yield {}


class Panic(BaseException):
    """As libraries in Rust raise, and gevent's Timeout is."""


async def panic(page: Page):
    raise Panic("index out of bounds")
    yield {}


def panic_in_a_thread(page: Page):
    raise Panic("index out of bounds")
    yield {}


@pytest.mark.parametrize("step", [panic, panic_in_a_thread])
async def test_the_panic_of_a_library_in_a_step_is_an_error_of_the_step(process, step):
    outcome = await process(step)
    assert isinstance(outcome, Retry)
    assert f"StepEnded: Step {step.__name__!r} raised Panic: index out of bounds" in outcome.error


@pytest.mark.parametrize("step", [leave, leave_a_thread, cancel_itself])
async def test_a_step_cannot_end_its_worker(process, step):
    outcome = await process(step)
    assert isinstance(outcome, Retry) and outcome.error.startswith("StepEnded")
    assert process.scheduler.slots.begin_step(2, 0.0), "its turn is free again"


async def broken(page: Page):
    yield {"x": 1 / 0}


async def test_a_caller_may_replace_the_outcome_of_an_error(process):
    outcome = await process(broken, tools={"on_error": lambda lease, error: Release(lease)})
    assert isinstance(outcome, Release)


async def test_a_step_without_a_page_may_use_the_turn_of_its_task_once(process):
    taken = []

    async def page(task):
        own = own_step()
        taken.extend([await own.take_turn(), await own.take_turn()])

    with pytest.raises(InvalidInput, match="while it runs"):
        own_step()
    await process(page, options={"fetch": None})
    assert taken == [True, False]


async def test_a_task_that_had_to_run_alone_takes_another_turn_at_its_host(process):
    turns, host = MagicMock(take=AsyncMock()), Host()
    await process(page, host, tools={"turns": turns})
    turns.take.assert_not_called()
    kept = ScheduledLease(make_lease(Task(url="https://shop.test/y", step="page")), 0.0, needs_turn=True)
    assert isinstance(await process.processor.process(kept, 2), Done)
    turns.take.assert_awaited_once()
    assert len(host.requests) == 2

"""Observers see claims, settlements and fetches."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import FetchTimeout, QueueUnavailable
from shoal.core.events import QUEUE_AWAY, Level, as_event
from shoal.core.http import Request, Response
from shoal.core.model import (
    Bury,
    Done,
    Fate,
    Grant,
    Reject,
    Release,
    Retry,
    Run,
    RunSettings,
    RunState,
    Task,
)
from shoal.fetch.cache.fetcher import CacheLookup, CachingFetcher
from shoal.worker.claims import TaskClaims
from shoal.worker.counters import BUCKETS, MetricCounters, WorkerCounters
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.settlements import Settler
from shoal.worker.telemetry.events import EventReporter, LogForwarder, forward_logs
from shoal.worker.telemetry.observer import MetricsObserver, fetch_observed
from tests.unit.builders import make_lease

SECOND = timedelta(seconds=1)
NOW = datetime.now(UTC)


def lease(url="https://example.com/a?token=c4nary", step="page"):
    task = Task(url=url, step=step)
    return make_lease(task, task_id="t1", attempt=2, deadline_in=SECOND)


class FakeQueue:
    """Returns prepared replies, or raises them."""

    def __init__(self):
        self.replies, self.fates = [], []

    async def claim(self, worker_id, **options):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def settle(self, outcomes):
        return self.fates or [Fate.ACCEPTED] * len(outcomes)


class Observed:
    """Claims and settles as a worker does, with an observer."""

    def __init__(self, queue, observer):
        run = Run(id="r", scraper="s", settings=RunSettings(), state=RunState.RUNNING, started_at=NOW)
        config = WorkerConfig(queue="", run_id="r", worker_id="w", scraper="s", lease=SECOND, memory=1)
        self._claims = TaskClaims(queue, run, config, None, max_pages=None, observers=[observer])
        self._settler = Settler(queue, lambda *_: None, give_up_after=SECOND, observers=[observer])

    async def claim(self):
        await self._claims.claim(1)

    async def settle(self, outcomes):
        await self._settler.settle(outcomes)


class FakeFetcher:
    closed = False

    async def fetch(self, request):
        if "bad" in request.url:
            raise FetchTimeout
        return Response(url=request.url, status=204)

    async def close(self):
        self.closed = True


class FakeCache(CachingFetcher):
    def __init__(self):
        pass

    async def lookup(self, request):
        return (
            CacheLookup(page=Response(url=request.url, status=200))
            if "cached" in request.url
            else CacheLookup()
        )

    async def send(self, request, look=None):
        return Response(url=request.url, status=301)


@pytest.fixture
def events():
    return []


@pytest.fixture
def queue():
    return FakeQueue()


def observe(queue, events, level=Level.INFO):
    return Observed(queue, EventReporter(events.append, level))


async def test_a_failed_task_is_reported_with_its_ids_and_without_secrets_of_its_query(queue, events):
    await observe(queue, events).settle([Retry(lease(), "FetchTimeout: too slow", after=SECOND)])
    (event,) = events
    assert (event.name, event.level) == ("task failed", Level.WARNING)
    assert event.fields == {
        "task": "t1",
        "step": "page",
        "attempt": 2,
        "url": "https://example.com/a?token=…",
        "error": "FetchTimeout",
        "message": "too slow",
        "outcome": "retry",
        "again_in": 1.0,
    }


async def test_slowed_and_paused_hosts_are_reported(queue, events):
    await observe(queue, events).settle(
        [Bury(lease(), "Blocked: 429", pause_host=SECOND, slow_host=2 * SECOND)]
    )
    assert [(event.name, event.fields.get("host")) for event in events[1:]] == [
        ("host slowed", "example.com"),
        ("host paused", "example.com"),
    ]


async def test_a_task_is_reported_when_it_starts_and_when_it_is_done(queue, events):
    reporter = EventReporter(events.append, Level.INFO)
    reporter.on_begin(lease())
    reject = Reject(data={"price": None}, reason="price is missing")
    await Observed(queue, reporter).settle([Done(lease(), items=[1, 2], rejects=[reject])])
    about = {"task": "t1", "step": "page", "attempt": 2, "url": "https://example.com/a?token=…"}
    begun, done = events
    assert (begun.name, begun.level, begun.fields) == ("task begun", Level.INFO, about)
    assert (done.name, done.level) == ("task done", Level.INFO)
    assert 0 <= done.fields.pop("seconds") < 60
    assert done.fields == about | {"outcome": "done", "items": 2, "rejected": 1, "follow": 0}


async def test_a_released_task_is_reported_only_if_it_was_started(queue, events):
    reporter = EventReporter(events.append, Level.INFO)
    await Observed(queue, reporter).settle([Release(lease())])
    assert events == []
    reporter.on_begin(lease())
    await Observed(queue, reporter).settle([Release(lease(), after=SECOND, reason="it was too late")])
    assert [event.name for event in events] == ["task begun", "task released"]
    told = events[1].fields
    assert told["again_in"] == 1.0 and told["reason"] == "it was too late" and "seconds" in told


async def test_at_level_warning_success_is_not_reported(queue, events):
    reporter = EventReporter(events.append, Level.WARNING)
    reporter.on_begin(lease())
    await Observed(queue, reporter).settle([Done(lease(), items=[1])])
    assert events == []


async def test_the_first_claim_after_an_outage_says_that_the_queue_is_back(events):
    reporter = EventReporter(events.append, Level.INFO)
    reporter.on_queue_error("claim", QueueUnavailable("b", "it does not respond"))
    reporter.on_claim()
    assert [event.name for event in events] == ["claim failed", "queue is back"]


async def test_a_stale_result_is_reported_as_refused_and_not_as_failed(queue, events):
    queue.fates = [Fate.STALE]
    await observe(queue, events).settle([Bury(lease(), "x")])
    assert [event.name for event in events] == ["result refused"]


async def test_a_failed_claim_is_reported_and_so_is_the_recovery(queue, events):
    queue.replies = [QueueUnavailable("db", "refused"), QueueUnavailable("db", "refused"), Grant(), Grant()]
    observed = observe(queue, events)
    for _ in range(2):
        with pytest.raises(QueueUnavailable):
            await observed.claim()
    for _ in range(2):
        await observed.claim()
    assert [event.name for event in events] == ["claim failed", "claim failed", "queue is back"]


async def test_recovery_is_reported_after_a_logged_wait_for_the_queue(queue, events):
    queue.replies = [Grant()]
    reporter = EventReporter(events.append, Level.INFO)
    logger = logging.getLogger("a.library")
    logger.addHandler(handler := LogForwarder(reporter.forward, logging.INFO))
    try:
        logger.warning("Waiting for the queue at %s", "db", extra=as_event(QUEUE_AWAY))
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(handler)
    await Observed(queue, reporter).claim()
    assert [event.name for event in events] == ["waiting for the queue", "queue is back"]


async def test_a_forwarded_record_is_not_handled_twice(events):
    root, ours = logging.getLogger(), logging.getLogger("shoal")
    before, ours_before, level = list(root.handlers), list(ours.handlers), root.level
    ours.addHandler(old_handler := logging.Handler())
    try:
        forward_logs(events.append, Level.INFO)
        assert old_handler not in ours.handlers
        logging.getLogger("shoal.queue.open").info("once")
        await asyncio.sleep(0)
    finally:
        root.handlers[:], ours.handlers[:] = before, ours_before
        root.setLevel(level)
    assert [event.fields["message"] for event in events] == ["once"]


async def test_a_record_from_a_thread_reaches_the_log_through_the_loop(events):
    logger = logging.getLogger("test_observer")
    logger.addHandler(handler := LogForwarder(events.append, logging.INFO))
    try:
        await asyncio.to_thread(logger.warning, "half of %s", "it")
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(handler)
    (event,) = events
    assert (event.name, event.fields) == ("log", {"logger": "test_observer", "message": "half of it"})


async def test_a_message_that_cannot_be_formatted_fails_no_step(events, capsys, monkeypatch):
    logger = logging.getLogger("test_observer")
    monkeypatch.setattr(logger, "propagate", False)  # pytest's own handler raises
    logger.addHandler(handler := LogForwarder(events.append, logging.INFO))
    try:
        logger.warning("%d pages", "many")
    finally:
        logger.removeHandler(handler)
    assert events == [] and "many" in capsys.readouterr().err


async def test_outcomes_are_counted_by_step_and_unknown_steps_as_other(queue):
    metrics = MetricsObserver({"page"})
    outcomes = [Done(lease()), Done(lease()), Retry(lease(), "x"), Bury(lease(step="made up"), "x")]
    await Observed(queue, metrics).settle(outcomes)
    assert metrics.measures.tasks == {"done page": 2, "retry page": 1, "bury other": 1}


async def test_successful_and_failed_fetches_are_counted():
    metrics = MetricsObserver(())
    await fetch_observed(FakeFetcher(), Request(url="https://example.com/good"), [metrics])
    with pytest.raises(FetchTimeout):
        await fetch_observed(FakeFetcher(), Request(url="https://example.com/bad"), [metrics])
    assert metrics.measures.statuses == {"2xx": 1, "none": 1}
    assert sum(metrics.measures.fetches) == 2


async def test_a_page_from_the_cache_is_no_fetch():
    metrics = MetricsObserver(())
    cached, new = (Request(url=f"https://example.com/{name}") for name in ("cached", "new"))
    assert (await fetch_observed(FakeCache(), cached, [metrics])).status == 200
    assert metrics.measures.statuses == {}
    assert (await fetch_observed(FakeCache(), new, [metrics])).status == 301
    assert metrics.measures.statuses == {"3xx": 1}


def test_a_fetch_counts_in_the_first_bucket_whose_bound_it_does_not_exceed():
    measures = MetricCounters()
    for seconds in (0.0, 0.01, 0.011, 60.0, 61.0):
        measures.count_fetch(seconds, 200)
    assert measures.fetches[:2] == [2, 1]
    assert measures.fetches[-2:] == [1, 1]
    assert len(measures.fetches) == len(BUCKETS) + 1


def test_the_measures_of_several_workers_are_added_up():
    one, other = MetricCounters(), MetricCounters()
    one.count_task("done", "page")
    other.count_task("done", "page")
    other.count_fetch(1.0, 404)
    both = WorkerCounters(measures=one) + WorkerCounters(measures=other) + WorkerCounters()
    assert both.measures.tasks == {"done page": 2}
    assert both.measures.statuses == {"4xx": 1}
    assert both.measures.fetch_seconds == 1.0

"""Whoever looks on sees claims, settlements and fetches; whoever is not watched pays nothing."""

import asyncio
import logging
from datetime import timedelta

import pytest

from shoal.core.errors import FetchTimeout, QueueUnavailable
from shoal.core.events import QUEUE_AWAY, Level, as_event
from shoal.core.exchange import Request, Response
from shoal.core.model import ZERO, Bury, Done, Fate, Grant, Lease, Reject, Release, Retry, Task
from shoal.fetch.cache import CachingFetcher, Look
from shoal.worker.measures import BUCKETS, Measures
from shoal.worker.measuring import Measuring
from shoal.worker.tally import Tally
from shoal.worker.telling import Overheard, Teller, overhear
from shoal.worker.watching import watched_fetcher, watched_queue

SECOND = timedelta(seconds=1)


def lease(url="https://example.com/a?token=c4nary", step="page"):
    task = Task(url=url, step=step)
    return Lease(run_id="r", task_id="t1", token=1, task=task, attempt=2, start_in=ZERO, deadline_in=SECOND)


class FakeQueue:
    """Answers what it is told to, or raises it."""

    def __init__(self):
        self.answers, self.fates = [], []

    async def claim(self, worker_id, **options):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def settle(self, outcomes):
        return self.fates or [Fate.ACCEPTED] * len(outcomes)

    async def stats(self, run_id):
        return f"stats of {run_id}"


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

    async def look(self, request):
        return Look(page=Response(url=request.url, status=200)) if "kept" in request.url else Look()

    async def ask(self, request, look=None):
        return Response(url=request.url, status=301)


@pytest.fixture
def events():
    return []


@pytest.fixture
def queue():
    return FakeQueue()


def told(queue, events, level=Level.INFO):
    return watched_queue(queue, Teller(events.append, level))


def test_a_worker_that_nobody_watches_has_the_things_themselves(queue):
    fetcher = FakeFetcher()
    assert watched_queue(queue, None) is queue
    assert watched_fetcher(fetcher, None) is fetcher


async def test_every_other_verb_goes_straight_to_the_queue(queue, events):
    assert await told(queue, events).stats("r") == "stats of r"


async def test_a_failed_task_is_told_with_its_ids_and_without_its_query(queue, events):
    await told(queue, events).settle([Retry(lease(), "FetchTimeout: too slow", after=SECOND)])
    (event,) = events
    assert (event.name, event.level) == ("task failed", Level.WARNING)
    assert event.fields == {
        "task": "t1",
        "step": "page",
        "attempt": 2,
        "url": "https://example.com/a",
        "error": "FetchTimeout",
        "message": "too slow",
        "outcome": "retry",
        "again_in": 1.0,
    }


async def test_a_host_that_is_spared_is_told(queue, events):
    await told(queue, events).settle([Bury(lease(), "Blocked: 429", pause_host=SECOND, slow_host=2 * SECOND)])
    assert [(event.name, event.fields.get("host")) for event in events[1:]] == [
        ("host slowed", "example.com"),
        ("host paused", "example.com"),
    ]


async def test_a_task_is_told_when_it_is_begun_and_when_it_is_done(queue, events):
    teller = Teller(events.append, Level.INFO)
    teller.begun(lease())
    reject = Reject(data={"price": None}, reason="price is missing")
    await watched_queue(queue, teller).settle([Done(lease(), items=[1, 2], rejects=[reject])])
    about = {"task": "t1", "step": "page", "attempt": 2, "url": "https://example.com/a"}
    begun, done = events
    assert (begun.name, begun.level, begun.fields) == ("task begun", Level.INFO, about)
    assert (done.name, done.level) == ("task done", Level.INFO)
    assert 0 <= done.fields.pop("seconds") < 60
    assert done.fields == about | {"outcome": "done", "items": 2, "rejected": 1, "follow": 0}


async def test_a_task_that_goes_back_is_told_only_if_it_was_begun(queue, events):
    teller = Teller(events.append, Level.INFO)
    await watched_queue(queue, teller).settle([Release(lease())])
    assert events == []
    teller.begun(lease())
    await watched_queue(queue, teller).settle([Release(lease(), after=SECOND)])
    assert [event.name for event in events] == ["task begun", "task released"]
    assert events[1].fields["again_in"] == 1.0 and "seconds" in events[1].fields


async def test_success_is_not_told_to_those_who_want_warnings(queue, events):
    teller = Teller(events.append, Level.WARNING)
    teller.begun(lease())
    await watched_queue(queue, teller).settle([Done(lease(), items=[1])])
    assert events == []


async def test_a_refused_result_is_told_as_such_and_not_as_failed(queue, events):
    queue.fates = [Fate.STALE]
    await told(queue, events).settle([Bury(lease(), "x")])
    assert [event.name for event in events] == ["result refused"]


async def test_a_claim_that_fails_is_told_and_that_the_queue_is_back(queue, events):
    queue.answers = [QueueUnavailable("db", "refused"), QueueUnavailable("db", "refused"), Grant(), Grant()]
    watched = told(queue, events)
    for _ in range(2):
        with pytest.raises(QueueUnavailable):
            await watched.claim("w", run_id="r")
    for _ in range(2):
        await watched.claim("w", run_id="r")
    assert [event.name for event in events] == ["claim failed", "claim failed", "queue is back"]


async def test_a_queue_that_was_waited_for_is_told_to_be_back(queue, events):
    queue.answers = [Grant()]
    teller = Teller(events.append, Level.INFO)
    logger = logging.getLogger("anybody")
    logger.addHandler(ear := Overheard(teller.heard, logging.INFO))
    try:
        logger.warning("Waiting for the queue at %s", "db", extra=as_event(QUEUE_AWAY))
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(ear)
    await watched_queue(queue, teller).claim("w", run_id="r")
    assert [event.name for event in events] == ["waiting for the queue", "queue is back"]


async def test_what_a_worker_overhears_is_not_said_twice(events):
    root, ours = logging.getLogger(), logging.getLogger("shoal")
    before, ours_before, level = list(root.handlers), list(ours.handlers), root.level
    ours.addHandler(talk := logging.Handler())
    try:
        overhear(events.append, Level.INFO)
        assert talk not in ours.handlers
        logging.getLogger("shoal.queue.open").info("once")
        await asyncio.sleep(0)
    finally:
        root.handlers[:], ours.handlers[:] = before, ours_before
        root.setLevel(level)
    assert [event.fields["message"] for event in events] == ["once"]


async def test_what_is_said_in_a_thread_reaches_the_log_through_the_loop(events):
    logger = logging.getLogger("test_watching")
    logger.addHandler(ear := Overheard(events.append, logging.INFO))
    try:
        await asyncio.to_thread(logger.warning, "half of %s", "it")
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(ear)
    (event,) = events
    assert (event.name, event.fields) == ("said", {"logger": "test_watching", "message": "half of it"})


async def test_a_message_that_cannot_be_formatted_fails_no_step(events, capsys, monkeypatch):
    logger = logging.getLogger("test_watching")
    monkeypatch.setattr(logger, "propagate", False)  # pytest's own handler raises
    logger.addHandler(ear := Overheard(events.append, logging.INFO))
    try:
        logger.warning("%d pages", "many")
    finally:
        logger.removeHandler(ear)
    assert events == [] and "many" in capsys.readouterr().err


async def test_outcomes_are_counted_by_step_and_unknown_steps_are_one(queue):
    measuring = Measuring({"page"})
    outcomes = [Done(lease()), Done(lease()), Retry(lease(), "x"), Bury(lease(step="made up"), "x")]
    await watched_queue(queue, measuring).settle(outcomes)
    assert measuring.measures.tasks == {"done page": 2, "retry page": 1, "bury other": 1}


async def test_fetches_are_counted_whether_or_not_they_come_home():
    measuring = Measuring(())
    fetcher = watched_fetcher(FakeFetcher(), measuring)
    await fetcher.fetch(Request(url="https://example.com/good"))
    with pytest.raises(FetchTimeout):
        await fetcher.fetch(Request(url="https://example.com/bad"))
    assert measuring.measures.statuses == {"2xx": 1, "none": 1}
    assert sum(measuring.measures.fetches) == 2


async def test_a_page_from_the_cache_is_no_fetch():
    measuring = Measuring(())
    cache = watched_fetcher(FakeCache(), measuring)
    assert isinstance(cache, CachingFetcher)
    assert (await cache.fetch(Request(url="https://example.com/kept"))).status == 200
    assert measuring.measures.statuses == {}
    assert (await cache.fetch(Request(url="https://example.com/new"))).status == 301
    assert measuring.measures.statuses == {"3xx": 1}


def test_a_fetch_counts_in_the_class_whose_bound_it_does_not_exceed():
    measures = Measures()
    for seconds in (0.0, 0.01, 0.011, 60.0, 61.0):
        measures.fetched(seconds, 200)
    assert measures.fetches[:2] == [2, 1]
    assert measures.fetches[-2:] == [1, 1]
    assert len(measures.fetches) == len(BUCKETS) + 1


def test_the_measures_of_several_workers_are_added_up():
    one, other = Measures(), Measures()
    one.task("done", "page")
    other.task("done", "page")
    other.fetched(1.0, 404)
    both = Tally(measures=one) + Tally(measures=other) + Tally()
    assert both.measures.tasks == {"done page": 2}
    assert both.measures.statuses == {"4xx": 1}
    assert both.measures.fetch_seconds == 1.0

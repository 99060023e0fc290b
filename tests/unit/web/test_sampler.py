"""One look at the queue serves everybody, and nobody's absence costs one."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.core.errors import QueueUnavailable, UnknownRun
from shoal.core.model import Done, Task
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.web import sampler as sampling
from shoal.web.history import GAP, MOST_POINTS, History, Point, columns
from shoal.web.sampler import Sampler

OFTEN = timedelta(milliseconds=20)
TABS = 20


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with await open_queue(f"sqlite:///{tmp_path}/queue.db") as opened:
        yield opened


@pytest.fixture
async def sampler(queue: Queue) -> AsyncIterator[Sampler]:
    made = Sampler(queue, every=OFTEN)
    running = asyncio.create_task(made.run())
    yield made
    made.close()
    running.cancel()
    await asyncio.wait([running])


async def take(sampler: Sampler, count: int, run_id: str | None = None) -> list[sampling.Sample]:
    """Return so many samples, each a new one."""
    found: list[sampling.Sample] = []
    async for sample in sampler.samples(run_id):
        found.append(sample)
        if len(found) >= count:
            break
    return found


async def test_twenty_tabs_cost_no_more_looks_than_one(sampler):
    seen = await asyncio.gather(*(take(sampler, 5) for _ in range(TABS)))
    assert len({id(sample) for samples in seen for sample in samples}) <= sampler.looks
    assert sampler.looks <= 5 + 2  # one of them may have begun a look later than the rest


async def test_nobody_asks_and_nobody_looks(queue, monkeypatch):
    monkeypatch.setattr(sampling, "REST_AFTER", timedelta(0))
    quiet = Sampler(queue, every=OFTEN)
    running = asyncio.create_task(quiet.run())
    await asyncio.sleep(0)
    assert quiet.looks == 0
    await quiet.fresh()
    looks = quiet.looks
    await asyncio.sleep(5 * OFTEN.total_seconds())  # which must bring none
    assert quiet.looks <= looks + 1
    running.cancel()
    await asyncio.wait([running])


async def test_a_page_has_a_sample_even_where_nothing_runs_the_sampler(queue):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url="https://books.example/1")])
    sample = await Sampler(queue).fresh()
    assert [one.run.id for one in sample.overview.runs] == [run.id]
    assert not sample.trouble


async def test_pages_that_come_together_share_a_look(queue):
    alone = Sampler(queue)
    await asyncio.gather(*(alone.fresh() for _ in range(TABS)))
    assert alone.looks == 1


async def test_a_queue_that_is_away_is_told_and_what_was_known_stays(queue, monkeypatch):
    run = await queue.start_run("books")
    sampler = Sampler(queue, every=timedelta(0))
    await sampler.fresh()

    async def away() -> None:
        raise QueueUnavailable("postgresql://me:hunter22secret@db/x", "it is down")

    with monkeypatch.context() as patch:
        patch.setattr(queue, "runs", away)
        sample = await sampler.fresh()
    assert "cannot be reached" in sample.trouble
    assert "hunter22secret" not in sample.trouble
    assert [one.run.id for one in sample.overview.runs] == [run.id]
    assert not (await sampler.fresh()).trouble


async def test_a_queue_that_never_answers_is_told_too(queue, monkeypatch):
    monkeypatch.setattr(sampling, "PATIENCE", 0.01)

    async def silent() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(queue, "runs", silent)
    assert "does not answer" in (await Sampler(queue).fresh()).trouble


async def test_closing_ends_every_stream(sampler):
    watching = [asyncio.create_task(_drain(sampler)) for _ in range(3)]
    await take(sampler, 2)
    sampler.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*watching)


async def test_an_old_run_is_in_the_samples_while_somebody_looks_at_it(queue, monkeypatch):
    monkeypatch.setattr("shoal.fleet.overview.MOST_RUNS", 1)
    old = await queue.start_run("old", run_id="20250101_000000_aaaa")
    await queue.start_run("new", run_id="20260101_000000_bbbb")
    sampler = Sampler(queue)
    assert (await sampler.fresh()).snapshot(old.id) is None
    found = (await sampler.fresh(old.id)).snapshot(old.id)
    assert found is not None and found.run.scraper == "old"
    assert sampler.history(old.id)


async def test_a_run_that_grows_too_old_for_the_overview_stays_with_those_who_watch_it(queue, monkeypatch):
    monkeypatch.setattr("shoal.fleet.overview.MOST_RUNS", 1)
    old = await queue.start_run("old", run_id="20250101_000000_aaaa")
    sampler = Sampler(queue, every=timedelta(0))
    assert (await sampler.fresh(old.id)).snapshot(old.id)
    await queue.start_run("new", run_id="20260101_000000_bbbb")
    assert (await sampler.fresh()).snapshot(old.id)


async def test_a_run_that_is_not_there_cannot_be_watched(queue):
    with pytest.raises(UnknownRun):
        await Sampler(queue).fresh("20250101_000000_none")


async def test_history_has_what_was_done(queue):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url=f"https://books.example/{n}") for n in range(2)])
    sampler = Sampler(queue, every=timedelta(0))
    await sampler.fresh()
    grant = await queue.claim("me", run_id=run.id, limit=1)
    await queue.settle([Done(grant.leases[0])])
    await sampler.fresh()
    assert [point.completed for point in sampler.history(run.id)] == [0, 1]
    assert [point.completed for point in sampler.history()] == [0, 1]


def test_history_is_bounded_by_time_and_by_count():
    history = History()
    for second in range(2 * MOST_POINTS):
        history.add(_point(second))
    assert len(history) <= MOST_POINTS
    history.add(_point(10 * MOST_POINTS))
    assert len(history) == 1


def test_a_while_without_a_look_is_a_gap_in_the_chart():
    times, rates, *_ = columns([_point(0), _point(2), _point(4), _point(4 + 10 * GAP)])
    assert rates == [None, 1.0, 1.0, None, 1.0]
    assert times == sorted(times)


def test_errors_that_left_with_their_worker_are_not_counted_back():
    history = History()
    for second, errors in enumerate([5, 8, 2, 3]):
        history.add(_point(second, errors))
    assert history.new_errors(datetime.fromtimestamp(3, UTC), timedelta(minutes=5)) == 4


async def _drain(sampler: Sampler) -> None:
    async for _ in sampler.samples():
        pass


def _point(second: float, errors: int = 0) -> Point:
    return Point(float(second), 1.0, 0, 0, 0, errors)


async def test_a_look_that_fails_in_an_unknown_way_is_told_and_the_next_one_is_made(sampler, monkeypatch):
    monkeypatch.setattr(sampling.log, "exception", lambda *words: None)
    look, failures = sampler._glances.look, [RuntimeError("boom")]

    async def fails_once():
        if failures:
            raise failures.pop()
        return await look()

    monkeypatch.setattr(sampler._glances, "look", fails_once)
    async with asyncio.timeout(20):
        samples = await take(sampler, 3)
    assert any("boom" in (sample.trouble or "") for sample in samples) and not samples[-1].trouble

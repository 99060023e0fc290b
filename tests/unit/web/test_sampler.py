"""One sample serves all viewers, and without viewers none is taken."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import Task
from shoal.queue.contract import Queue
from shoal.web import sampler as sampling
from shoal.web.sampler import GAP, Sampler, chart

INTERVAL = timedelta(milliseconds=20)
TABS = 20


@pytest.fixture
async def sampler(queue: Queue) -> AsyncIterator[Sampler]:
    made = Sampler(queue, interval=INTERVAL)
    running = asyncio.create_task(made.run())
    yield made
    made.close()
    running.cancel()
    await asyncio.wait([running])


async def take(sampler: Sampler, count: int) -> list[sampling.Sample]:
    """Return `count` samples, each a new one."""
    found = [await sampler.fresh_sample()]
    while len(found) < count:
        newer = await sampler.next_sample(found[-1])
        assert newer is not None
        found.append(newer)
    return found


async def test_no_samples_are_taken_without_viewers(queue, monkeypatch):
    monkeypatch.setattr(sampling, "IDLE_TIMEOUT", timedelta(0))
    idle = Sampler(queue, interval=INTERVAL)
    running = asyncio.create_task(idle.run())
    await asyncio.sleep(0)
    assert idle.sample_count == 0
    await idle.fresh_sample()
    sample_count = idle.sample_count
    await asyncio.sleep(5 * INTERVAL.total_seconds())  # no sample may be taken meanwhile
    assert idle.sample_count <= sample_count + 1
    running.cancel()
    await asyncio.wait([running])


async def test_a_page_gets_a_sample_even_if_the_sampler_does_not_run(queue):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url="https://books.example/1")])
    sample = await Sampler(queue).fresh_sample()
    assert [one.run.id for one in sample.overview.runs] == [run.id]
    assert not sample.error


async def test_concurrent_pages_share_a_sample(queue):
    sampler = Sampler(queue)
    await asyncio.gather(*(sampler.fresh_sample() for _ in range(TABS)))
    assert sampler.sample_count == 1


async def test_the_sample_of_a_viewer_who_wakes_the_sampler_is_not_followed_by_another_at_once(queue):
    sampler = Sampler(queue, interval=timedelta(minutes=1))
    running = asyncio.create_task(sampler.run())
    await asyncio.sleep(0)
    await sampler.fresh_sample()
    async with sampler._sampling:  # the sampler waits for it
        assert sampler.sample_count == 1
    await asyncio.sleep(0)
    assert sampler.sample_count == 1
    running.cancel()
    await asyncio.wait([running])


async def test_a_queue_that_never_responds_is_reported_too(queue, monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE_TIMEOUT", timedelta(seconds=0.01))

    async def silent() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(queue, "runs", silent)
    assert "does not respond" in (await Sampler(queue).fresh_sample()).error


async def test_an_old_run_is_in_the_samples_while_it_has_a_viewer(queue, monkeypatch):
    monkeypatch.setattr("shoal.fleet.status.overview.MAX_RUNS", 1)
    old = await queue.start_run("old", run_id="20250101_000000_aaaa")
    await queue.start_run("new", run_id="20260101_000000_bbbb")
    sampler = Sampler(queue)
    assert (await sampler.fresh_sample()).snapshot(old.id) is None
    found = (await sampler.fresh_sample(old.id)).snapshot(old.id)
    assert found is not None and found.run.scraper == "old"


async def test_an_unknown_run_cannot_be_watched(queue):
    with pytest.raises(UnknownRun):
        await Sampler(queue).fresh_sample("20250101_000000_none")


async def test_history_has_the_last_hour(queue):
    sampler = Sampler(queue, interval=timedelta(0))
    await sampler.fresh_sample()
    await sampler.fresh_sample()
    assert len(sampler.history()) == 2
    sampler._rates.appendleft((sampler.latest.at.timestamp() - 3_601, 1.0))
    assert len(sampler.history()) == 2


def test_a_period_without_samples_is_a_gap_in_the_chart():
    pairs = chart([(at, 1.0) for at in (0.0, 2.0, 4.0, 4.0 + 10 * GAP)])
    assert [rate for _, rate in pairs] == [None, 1.0, 1.0, None, 1.0]
    assert pairs == sorted(pairs, key=lambda pair: pair[0])


async def test_an_unexpected_error_is_reported_and_sampling_continues(sampler, monkeypatch):
    monkeypatch.setattr(sampling.log, "exception", lambda *words: None)
    look, failures = sampler._overview_reader.read, [RuntimeError("boom")]

    async def fails_once():
        if failures:
            raise failures.pop()
        return await look()

    monkeypatch.setattr(sampler._overview_reader, "read", fails_once)
    async with asyncio.timeout(20):
        samples = await take(sampler, 3)
    assert any("boom" in (sample.error or "") for sample in samples) and not samples[-1].error

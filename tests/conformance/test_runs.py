"""A run owns its tasks and settings; it can be resumed by its id, paused, cancelled, and purged."""

import asyncio
import re
from contextlib import suppress
from datetime import timedelta
from itertools import chain, count
from typing import Any

import pytest

from shoal.core.errors import InvalidSetting, QueueError, RunConflict, UnknownRun
from shoal.core.model import MINUTE, ZERO, Bury, Done, EnqueueReport, Fate, RunSettings, RunState
from shoal.queue.contract import Queue
from tests.conformance.backends import Bench, Clock, by_contract, lasting
from tests.conformance.helpers import ME, claim, claim_one, every, page, pages, start, start_one, the_dead


async def test_a_run_without_an_id_gets_one_from_the_stores_clock(queue: Queue, clock: Clock) -> None:
    run = await queue.start_run("books")
    assert re.fullmatch(r"\d{8}_\d{6}_[0-9a-z]{4}", run.id)
    assert abs(run.started_at - clock.now()) < MINUTE
    assert run.id.startswith(f"{run.started_at:%Y%m%d_%H%M}")
    assert run.started_at.utcoffset() == ZERO


async def test_callers_that_draw_the_same_id_at_once_start_different_runs(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = chain(["0001", "0001", "0001"], map("{:04x}".format, count(2)))
    monkeypatch.setattr("shoal.queue.requests.secrets.token_hex", lambda size: next(drawn))
    runs = await asyncio.gather(*(queue.start_run(scraper) for scraper in ("books", "books", "films")))
    assert len({run.id for run in runs}) == 3
    assert [run.scraper for run in runs] == ["books", "books", "films"]


async def test_a_run_keeps_its_settings(queue: Queue) -> None:
    settings = RunSettings(
        host_delay=timedelta(milliseconds=1500), per_host=7, max_attempts=5, ttl=timedelta(days=3)
    )
    run_id = "r.1_A-b" + "x" * 93
    run = await queue.start_run("books", settings=settings, run_id=run_id)
    assert (run.id, run.scraper, run.settings, run.state) == (run_id, "books", settings, RunState.RUNNING)
    assert await queue.run(run_id) == run
    await queue.enqueue(run_id, [page()])
    assert (await claim_one(queue, run)).run_id == run_id


async def test_starting_a_run_that_exists_returns_it_unchanged(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(3), run_id="again")
    paused = await queue.pause(run.id)
    await clock.forward(MINUTE)
    resumed = await queue.start_run("books", settings=RunSettings(per_host=99), run_id="again")
    assert (resumed.settings, resumed.state) == (run.settings, paused.state)
    assert (await queue.stats("again")).pending == 3


async def test_a_run_of_another_scraper_is_a_conflict(queue: Queue) -> None:
    await queue.start_run("books", run_id="mine")
    with pytest.raises(RunConflict, match="mine"):
        await queue.start_run("films", run_id="mine")
    assert (await queue.run("mine")).scraper == "books"


@by_contract
async def test_an_odd_run_id_is_refused(queue: Queue) -> None:
    for run_id in ("", "a b", "a/b", "../up", "ü", "x\n", "a\0b", "x" * 101, "newest"):
        with pytest.raises(InvalidSetting):
            await queue.start_run("books", run_id=run_id)
    assert not list(await queue.runs())


@by_contract
async def test_settings_that_no_run_can_have_are_refused(queue: Queue) -> None:
    impossible: list[dict[str, Any]] = [
        {"host_delay": -MINUTE},
        {"per_host": 0},
        {"max_attempts": 0},
        {"ttl": ZERO},
        {"ttl": -MINUTE},
    ]
    for settings in impossible:
        with pytest.raises(InvalidSetting, match=next(iter(settings))):
            await queue.start_run("books", settings=RunSettings(**settings))
    assert not list(await queue.runs())


async def test_runs_are_listed_the_newest_first(queue: Queue, clock: Clock) -> None:
    assert list(await queue.runs()) == []
    ids = []
    for scraper in ("books", "films", "books"):
        ids.append((await queue.start_run(scraper)).id)
        await clock.forward(MINUTE)
    assert [run.id for run in await queue.runs()] == ids[::-1]


async def test_a_run_is_paused_resumed_and_cancelled(queue: Queue) -> None:
    run = await start(queue, page())
    assert (await queue.pause(run.id)).state is RunState.PAUSED
    assert (await queue.pause(run.id)).state is RunState.PAUSED
    assert (await queue.resume(run.id)).state is RunState.RUNNING
    assert (await queue.resume(run.id)).state is RunState.RUNNING
    assert (await queue.cancel(run.id)).state is RunState.CANCELLED
    assert (await queue.cancel(run.id)).state is RunState.CANCELLED
    assert (await queue.run(run.id)).state is RunState.CANCELLED


async def test_a_cancelled_run_cannot_be_resumed(queue: Queue) -> None:
    run = await start(queue, page())
    await queue.cancel(run.id)
    with pytest.raises(RunConflict, match=run.id):
        await queue.resume(run.id)
    with suppress(RunConflict):
        await queue.pause(run.id)
    assert (await queue.run(run.id)).state is RunState.CANCELLED
    assert not await claim(queue, run)


async def test_a_run_that_is_finished_with_tasks_left_is_partial_and_keeps_the_reason(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    lease = await claim_one(queue, run)
    ended = await queue.finish(run.id, "max_pages=1 reached")
    assert (ended.state, ended.reason) == (RunState.PARTIAL, "max_pages=1 reached")
    assert await queue.run(run.id) == ended
    assert [(one.state, one.reason) for one in await queue.runs()] == [(ended.state, ended.reason)]
    grant = await queue.claim(ME, run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], True)
    assert await queue.settle([Done(lease, items=[1], follow=[page(9)])]) == [Fate.ACCEPTED]
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.remaining, stats.items) == (1, 3, 1)


async def test_of_many_who_finish_a_run_the_first_gives_the_reason(queue: Queue) -> None:
    run = await start(queue, page())
    ended = await asyncio.gather(*(queue.finish(run.id, f"reason {number}") for number in range(5)))
    assert len({one.reason for one in ended}) == 1
    assert (await queue.finish(run.id, "too late")).reason == ended[0].reason


async def test_a_partial_run_goes_on_when_it_is_resumed(queue: Queue) -> None:
    run = await start(queue, page())
    await queue.finish(run.id, "max_pages=1 reached")
    with pytest.raises(RunConflict, match="max_pages=1 reached"):
        await queue.pause(run.id)
    resumed = await queue.resume(run.id)
    assert (resumed.state, resumed.reason) == (RunState.RUNNING, "")
    assert len(await claim(queue, run)) == 1


async def test_a_cancelled_run_stays_cancelled_when_it_is_finished_and_a_partial_one_can_be_cancelled(
    queue: Queue,
) -> None:
    run = await start(queue, page())
    await queue.pause(run.id)
    assert (await queue.finish(run.id, "enough")).state is RunState.PARTIAL
    assert (await queue.cancel(run.id)).state is RunState.CANCELLED
    assert (await queue.finish(run.id, "enough")).state is RunState.CANCELLED


async def test_any_reason_can_be_kept(queue: Queue) -> None:
    run = await start(queue, page())
    ended = await queue.finish(run.id, "nul \0 and\nline ✓ " + "x" * 5000)
    assert ended.reason.startswith("nul and line ✓ xxx")
    assert await queue.run(run.id) == ended


async def test_steering_one_run_leaves_the_others_alone(queue: Queue) -> None:
    run, other = await start(queue, page()), await start(queue, page())
    await queue.cancel(run.id)
    assert (await queue.run(other.id)).state is RunState.RUNNING
    assert len(await claim(queue, other)) == 1


async def test_a_purged_run_is_gone_with_all_it_owned(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    keep, keep_lease = await start_one(queue)
    await queue.settle([Done(keep_lease, items=["kept"])])
    await queue.settle([Done(await claim_one(queue, run), items=[1])])
    await queue.settle([Bury(await claim_one(queue, run), "gone")])
    await queue.purge(run.id)
    with pytest.raises(UnknownRun):
        await queue.stats(run.id)
    with pytest.raises(UnknownRun):
        await every(queue.items(run.id))
    assert [one.id for one in await queue.runs()] == [keep.id]
    assert [item.data for item in await every(queue.items(keep.id))] == ["kept"]


async def test_purging_frees_the_runs_keys(queue: Queue) -> None:
    run, lease = await start_one(queue, run_id="again")
    await queue.settle([Bury(lease, "gone")])
    await queue.purge(run.id)
    run = await start(queue, run_id="again")
    assert await queue.enqueue(run.id, [page()]) == EnqueueReport(added=1)
    assert (await claim_one(queue, run)).attempt == 1
    assert (await queue.stats(run.id)).tasks == 1
    assert await every(queue.items(run.id)) == []
    assert await the_dead(queue, run) == []


async def test_leases_of_a_purged_run_are_stale(queue: Queue) -> None:
    run, lease = await start_one(queue)
    await queue.purge(run.id)
    assert await queue.settle([Done(lease, items=[1], follow=[page(2)])]) == [Fate.STALE]
    assert await queue.extend([lease]) == [Fate.STALE]
    assert await queue.reclaim() == 0


async def test_leases_of_a_purged_run_are_stale_in_a_new_run_of_the_same_id(queue: Queue) -> None:
    _, old = await start_one(queue, run_id="again")
    await queue.purge("again")
    run, new = await start_one(queue, run_id="again")
    assert await queue.settle([Done(old, items=["old"])]) == [Fate.STALE]
    assert await queue.settle([Done(new, items=["new"])]) == [Fate.ACCEPTED]
    assert [item.data for item in await every(queue.items(run.id))] == ["new"]


async def test_a_verb_for_an_unknown_run_is_refused_with_a_hint(queue: Queue) -> None:
    await start(queue, run_id="books-2026")
    for verb in (queue.run, queue.pause, queue.resume, queue.cancel, queue.purge):
        with pytest.raises(UnknownRun, match="Did you mean 'books-2026'"):
            await verb("books-2025")
    with pytest.raises(UnknownRun):
        await queue.finish("nobody", "enough")


@lasting
async def test_runs_survive_a_restart(bench: Bench) -> None:
    run = await start(bench.queue, *pages(2), per_host=3)
    await bench.queue.pause(run.id)
    ended = await bench.queue.finish((await start(bench.queue, page())).id, "enough")
    queue = await bench.restart()
    assert await queue.run(ended.id) == ended
    kept = await queue.run(run.id)
    assert (kept.settings, kept.state) == (run.settings, RunState.PAUSED)
    await queue.resume(run.id)
    assert len((await queue.claim(ME, run_id=run.id)).leases) == 2


@lasting
async def test_a_closed_queue_says_so_and_closing_it_again_is_nothing(bench: Bench) -> None:
    closed, run = bench.queue, await start(bench.queue, page())
    await bench.restart()
    await closed.close()
    for call in (closed.stats(run.id), closed.claim(ME, run_id=run.id), every(closed.items(run.id))):
        with pytest.raises(QueueError, match="closed"):
            await call


async def test_migrating_again_changes_nothing(queue: Queue) -> None:
    run = await start(queue, page())
    assert await queue.migrate() == await queue.migrate() >= 1
    assert (await queue.stats(run.id)).pending == 1

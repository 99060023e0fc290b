"""Schedules on every store: many coordinators record each occurrence once, by the store's clock."""

import asyncio
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.fleet.project.file import Project
from shoal.fleet.schedule.plan import OccurrenceState, ended, started
from shoal.fleet.schedule.store import Schedules
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, VirtualClock

SECOND = timedelta(seconds=1)
COMPLETE = Verdict(outcome=RunOutcome.COMPLETE)
OFTEN = {"scraper": "books", "every": "10s", "overlap": "wait"}


def project(**schedules: dict[str, object]) -> Project:
    return Project(Path.cwd(), Path("shoal.toml"), schedules=schedules)


@pytest.fixture
def skewed(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """Let all who read the queue's time differ by up to two seconds."""
    clock = VirtualClock()

    async def now() -> datetime:
        return clock.now() + random.uniform(-2, 2) * SECOND

    monkeypatch.setattr(queue, "now", now)
    return clock


async def test_three_coordinators_record_each_occurrence_once(queue: Queue, skewed: VirtualClock) -> None:
    coordinators = [Schedules(queue, project(often=OFTEN)) for _ in range(3)]
    await asyncio.gather(*(one.declare() for one in coordinators))
    begin = (await coordinators[0].get("often")).next_at
    assert begin

    async def fire(one: Schedules) -> None:
        for record in await one.all():
            record = await one.advance(record)
            for occurrence in record.open:
                await one.update("often", started(occurrence.run_id, OccurrenceState.STARTING, begin))
                await one.update("often", ended(occurrence.run_id, COMPLETE, begin))

    for _ in range(20):
        await skewed.forward(5 * SECOND)
        await asyncio.gather(*(fire(one) for one in coordinators))
    found = (await coordinators[0].get("often")).occurrences
    assert [one.at for one in found] == [begin + 10 * SECOND * count for count in range(len(found))]
    assert len(found) in (9, 10, 11)
    assert {one.state for one in found} == {OccurrenceState.ENDED}


async def test_of_two_coordinators_one_begins_an_occurrence(queue: Queue) -> None:
    schedules = Schedules(queue, project(often=OFTEN))
    record = await schedules.run_now("often")
    run_id, at = record.open[0].run_id, record.open[0].at
    begun = [started(run_id, OccurrenceState.STARTING, at + count * SECOND) for count in range(5)]
    results = await asyncio.gather(*(schedules.update("often", change) for change in begun))
    assert len({one.open[0].fired_at for one in results}) == 1


async def test_the_time_of_the_queue_is_that_of_its_store(queue: Queue, clock: Clock) -> None:
    before = await queue.now()
    await clock.forward(timedelta(0))
    assert abs(before - clock.now()) < 30 * SECOND
    assert before.utcoffset() == timedelta(0)


async def test_a_paused_schedule_records_nothing_and_goes_on_after_now(
    queue: Queue, skewed: VirtualClock
) -> None:
    schedules = Schedules(queue, project(often=OFTEN))
    await schedules.declare()
    await schedules.pause("often")
    await skewed.forward(60 * SECOND)
    assert not (await schedules.advance(await schedules.get("often"))).occurrences
    resumed = await schedules.resume("often")
    assert resumed.next_at and resumed.next_at > skewed.now() - 2 * SECOND


async def test_a_schedule_that_a_file_has_no_more_is_removed_at_its_next_start_and_those_of_others_stay(
    queue: Queue,
) -> None:
    entry = {"scraper": "books", "every": "1h"}
    scrapers: dict[str, Any] = {"books": None}
    other = Project(Path.cwd(), Path("other/shoal.toml"), scrapers=scrapers, schedules={"theirs": entry})
    ours = Project(Path.cwd(), Path("shoal.toml"), scrapers=scrapers, schedules={"gone": entry})
    await Schedules(queue, other).declare()
    await Schedules(queue, ours).declare()
    await Schedules(queue, project()).add("added", entry)
    assert await Schedules(queue, project(added={**entry, "every": "2h"})).declare() == ["added"]
    found = await Schedules(queue, project()).all()
    assert [(one.name, one.schedule.every) for one in found] == [("added", "1h"), ("theirs", "1h")]


async def test_a_change_elsewhere_lasts_until_the_file_changes(queue: Queue) -> None:
    first = Schedules(queue, project(often=OFTEN))
    await first.declare()
    await first.change("often", {"every": "20s"})
    await first.declare()
    assert (await first.get("often")).schedule.every == "20s"
    second = Schedules(queue, project(often={**OFTEN, "every": "30s"}))
    await second.declare()
    assert (await second.get("often")).schedule.every == "30s"

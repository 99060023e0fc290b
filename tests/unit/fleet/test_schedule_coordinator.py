"""A coordinator takes the runs of schedules from seeds to outcome, also those of one that died."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from shoal.core.errors import InvalidInput, QueueReplaced
from shoal.core.model import Done
from shoal.fleet import cluster_roles, lock, schedule_coordinator
from shoal.fleet.app import App
from shoal.fleet.cluster_roles import MessageObserver
from shoal.fleet.project.file import read
from shoal.fleet.run import lifecycle
from shoal.fleet.schedule.plan import OccurrenceState, advance, started
from shoal.fleet.schedule.rows import ScheduleRow
from shoal.fleet.schedule_coordinator import ScheduleCoordinator
from shoal.queue.run_args import stored_args
from shoal.worker.run_settings import read_note

SCRAPER = """
from dataclasses import dataclass
from shoal import Scraper, Task

@dataclass
class Args:
    kind: str = "all"

names = Scraper("names", args=Args)

@names.step(fetch=None)
async def name(task: Task):
    yield {}
"""
TOML = """
[scrapers.names]
module = "names.py:names"
seeds = { axis = ["name:ann,bob"] }

[schedules.nightly]
scraper = "names"
cron = "0 2 * * *"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(schedule_coordinator, "TICK_INTERVAL", timedelta(milliseconds=20))
    monkeypatch.setattr(cluster_roles, "POLL_INTERVAL_SECONDS", 0.02)


class Bench:
    """A project in a folder, and its coordinators."""

    def __init__(self, queue, folder):
        self.queue, self.folder, self.said = queue, folder, []
        (folder / "names.py").write_text(SCRAPER)
        self.write("")

    def write(self, more):
        (self.folder / "shoal.toml").write_text(TOML + more)

    @property
    def app(self):
        return App(self.queue, f"sqlite:///{self.folder}/queue.db", read(self.folder / "shoal.toml"))

    @asynccontextmanager
    async def coordinator(self, **more):
        firing = ScheduleCoordinator(self.app, MessageObserver(self.said.append), **more)
        serving = asyncio.create_task(firing.serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    async def newest(self, name="nightly"):
        return (await self.app.schedules.get(name)).occurrences[-1]

    async def until(self, state, name="nightly"):
        async with asyncio.timeout(20):
            while (one := await self.newest(name)).state is not state:
                await asyncio.sleep(0.02)
        return one

    async def drain(self, run_id):
        while (grant := await self.queue.claim("drain", run_id=run_id)).drained or not grant.leases:
            await asyncio.sleep(0.02)  # its seeds are still being enqueued
        await self.queue.settle([Done(lease, items=[dict(lease.task.payload)]) for lease in grant.leases])


@pytest.fixture
def bench(queue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Bench(queue, tmp_path)


async def test_a_run_has_the_seeds_arguments_and_settings_of_its_schedule_and_writes_its_items(bench):
    bench.write(
        'args = { kind = "new" }\nsettings = { retries = 7 }\nout = "out/{run}.jsonl"\n'
        'seeds = { axis = ["name:eve"] }\n'
    )
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        assert (await stored_args(bench.queue, run_id)) == {"kind": "new"}
        assert (await bench.queue.run(run_id)).settings.max_attempts == 8
        await bench.drain(run_id)
        one = await bench.until(OccurrenceState.ENDED)
    assert one.outcome == "complete"
    assert json.loads((bench.folder / "out" / f"{run_id}.jsonl").read_text()) == {"name": "eve"}


@pytest.mark.parametrize("fault", ["seeds", "module", "args"])
async def test_what_cannot_begin_at_night_is_said_when_the_coordinator_starts(bench, fault):
    broken = {
        "seeds": ("axis =", "axes ="),
        "module": ("names.py", "gone.py"),
        "args": ("[schedules.nightly]", "[schedules.nightly]\nargs = { sort = 1 }"),
    }[fault]
    (bench.folder / "shoal.toml").write_text(TOML.replace(*broken))
    async with bench.coordinator():
        async with asyncio.timeout(20):
            while not bench.said:
                await asyncio.sleep(0.02)
    (text,) = bench.said
    assert text.startswith("Runs of schedule 'nightly' cannot begin here: ")
    said = {
        "seeds": "scrapers.names.seeds.axes is not known",
        "module": "There is no file",
        "args": "'sort'",
    }
    assert said[fault] in text


@pytest.mark.parametrize("is_workers_here", [True, False])
async def test_a_run_that_waits_for_ever_ends_at_the_time_limit_of_its_schedule(bench, is_workers_here):
    bench.write('time_limit = "1s"\n')
    waiting = SCRAPER.replace("yield {}", "await asyncio.sleep(60)\n    yield {}")
    (bench.folder / "names.py").write_text(f"import asyncio\n{waiting}")
    async with bench.coordinator(workers=int(is_workers_here)):
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        one = await bench.until(OccurrenceState.ENDED)
    assert (one.run_id, one.outcome) == (run_id, "timed_out")
    assert one.reason == "its time limit of 1s was reached with 2 tasks left"


async def test_it_ends_when_the_file_of_the_queue_is_gone(bench, monkeypatch):
    async def gone(*args, **more):
        raise QueueReplaced("queue.db")

    firing = ScheduleCoordinator(bench.app)
    serving = asyncio.create_task(firing.serve())
    await asyncio.sleep(0.1)
    monkeypatch.setattr(bench.queue, "notes", gone)
    async with asyncio.timeout(20):
        with pytest.raises(QueueReplaced):
            await serving


async def test_another_coordinator_goes_on_with_the_run_of_one_that_is_gone(bench):
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
    async with bench.coordinator():
        await bench.drain(run_id)
        one = await bench.until(OccurrenceState.ENDED)
    assert one.outcome == "complete"
    assert [run.id for run in await bench.queue.runs()] == [run_id]
    assert (await bench.queue.stats(run_id)).items == 2


async def test_a_coordinator_that_died_before_it_made_the_run_is_made_up_for(bench, monkeypatch):
    class Dying(Exception):
        pass

    def die(*_):
        raise Dying

    monkeypatch.setattr(schedule_coordinator, "open_run", die)
    async with bench.coordinator():
        await bench.app.schedules.run_now("nightly")
        await bench.until(OccurrenceState.STARTING)
    monkeypatch.undo()
    monkeypatch.setattr(schedule_coordinator, "TICK_INTERVAL", timedelta(milliseconds=20))
    monkeypatch.chdir(bench.folder)
    async with bench.coordinator():
        await bench.drain((await bench.until(OccurrenceState.RUNNING)).run_id)
        assert (await bench.until(OccurrenceState.ENDED)).outcome == "complete"


async def test_with_cancel_the_run_before_ends_when_the_next_one_is_due(bench):
    bench.write('overlap = "cancel"\n')
    async with bench.coordinator():
        schedules = bench.app.schedules
        first = (await schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        due = (await schedules.get("nightly")).next_at
        await schedules.update("nightly", lambda record: advance(record, due))
        await bench.until(OccurrenceState.RUNNING)
    found = await bench.app.schedules.get("nightly")
    assert [(one.outcome, one.reason) for one in found.occurrences] == [
        ("cancelled", "the next one was due"),
        ("", ""),
    ]
    assert (await bench.queue.run(first)).state == "cancelled"


async def test_with_cancel_a_run_that_was_done_when_the_next_one_was_due_is_complete(bench):
    bench.write('overlap = "cancel"\n')
    async with bench.coordinator():
        schedules = bench.app.schedules
        first = (await schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        while (await bench.queue.stats(first)).tasks < 2:
            await asyncio.sleep(0.02)
    await bench.drain(first)  # nobody was there to record its end
    due = (await schedules.get("nightly")).next_at
    await schedules.update("nightly", lambda record: advance(record, due))
    async with bench.coordinator():
        await bench.until(OccurrenceState.RUNNING)
    assert (await schedules.get("nightly")).find(first).outcome == "complete"


@pytest.mark.parametrize("lost", ["cancelled", "deleted"])
async def test_a_run_that_was_ended_by_hand_meanwhile_is_over(bench, lost):
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        while (await bench.queue.stats(run_id)).tasks < 2:
            await asyncio.sleep(0.02)
    await (lifecycle.cancel if lost == "cancelled" else lifecycle.purge)(bench.queue, run_id)
    async with bench.coordinator():
        one = await bench.until(OccurrenceState.ENDED)
    outcome, said = ("cancelled", "2 tasks left") if lost == "cancelled" else ("failed", "run was deleted")
    assert one.outcome == outcome and said in one.reason
    assert bool(await bench.queue.runs()) == (lost == "cancelled")


@pytest.mark.parametrize(
    ("seeds", "outcome", "said"),
    [
        ('urls_file = "empty.txt"', "empty", "its seeds gave no task"),
        ('urls_file = "nothing.txt"', "failed", "nothing.txt"),
        ('url = ["nonsense"]', "failed", "nonsense"),
    ],
)
async def test_a_run_that_gets_no_task_ends_and_leaves_no_run_behind(bench, seeds, outcome, said):
    (bench.folder / "empty.txt").write_text("# none today\n")
    bench.write(f"seeds = {{ {seeds} }}\n")
    async with bench.coordinator():
        await bench.app.schedules.run_now("nightly")
        one = await bench.until(OccurrenceState.ENDED)
    assert one.outcome == outcome and said in one.reason
    assert await bench.queue.runs() == []


async def test_arguments_and_settings_that_are_edited_meanwhile_are_for_the_next_run(bench):
    bench.write('args = { kind = "new" }\n')
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
    await bench.app.schedules.change("nightly", {"args": {"kind": "old"}, "settings": {"retries": 9}})
    async with bench.coordinator():
        await bench.drain(run_id)
        one = await bench.until(OccurrenceState.ENDED)
    assert (one.outcome, one.reason) == ("complete", "")
    assert (await stored_args(bench.queue, run_id)) == {"kind": "new"}


async def test_a_private_address_that_was_added_is_allowed_and_results_go_to_the_projects_folder(
    bench, monkeypatch
):
    seeds, out = {"url": ["http://127.0.0.1:8000/"]}, "out/{run}.jsonl"
    await bench.app.schedules.add("other", {"scraper": "names", "every": "1d", "seeds": seeds, "out": out})
    (bench.folder / "below").mkdir()
    monkeypatch.chdir(bench.folder / "below")
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("other")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING, "other")
        stored = (await read_note(bench.queue, run_id)).settings.values
        await bench.drain(run_id)
        await bench.until(OccurrenceState.ENDED, "other")
    assert stored["allow_private"] == ["127.0.0.1:8000"]
    assert (bench.folder / "out" / f"{run_id}.jsonl").exists()


async def test_a_schedule_that_cannot_be_read_is_said_and_the_others_fire(bench):
    table = {"scraper": "names", "every": "1h", "colour": "red"}
    broken = {"aaa": b"nonsense", "bbb": msgspec.json.encode({"name": "bbb", "table": table})}
    await bench.queue.write_notes("schedules", broken)
    async with bench.coordinator():
        await bench.app.schedules.run_now("nightly")
        await bench.until(OccurrenceState.RUNNING)
    rows = [ScheduleRow.from_record(one) for one in await bench.app.schedules.all()]
    assert [row.state for row in rows] == ["invalid", "invalid", "active"]
    assert len([text for text in bench.said if "is left out" in text]) == 2
    with pytest.raises(InvalidInput, match="schedule remove bbb"):
        await bench.app.schedules.pause("bbb")


async def test_a_scraper_that_is_not_here_is_left_to_other_coordinators_and_said_once(bench):
    await bench.app.schedules.add("other", {"scraper": "elsewhere", "every": "1h"})
    async with bench.coordinator():
        await bench.app.schedules.run_now("other")
        await bench.app.schedules.run_now("nightly")
        await bench.until(OccurrenceState.RUNNING)
        assert (await bench.newest("other")).state is OccurrenceState.DUE
    assert len([text for text in bench.said if "'other' cannot go on here" in text]) == 1


async def test_a_coordinator_that_slept_longer_than_its_lock_leaves_the_run_to_the_other(bench, monkeypatch):
    monkeypatch.setattr(lock, "RENEW_INTERVAL", timedelta(milliseconds=20))
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        while (await bench.queue.stats(run_id)).tasks < 2:
            await asyncio.sleep(0.02)
        theirs = msgspec.json.encode({"holder": "elsewhere-1-abcd", "run_id": "another"})
        await bench.queue.write_notes(lock.TOPIC, {"filling names": theirs}, ttl=lock.LOCK_TTL)
        async with asyncio.timeout(20):
            while not any("waits:" in text for text in bench.said):
                await asyncio.sleep(0.02)
        await bench.drain(run_id)
        assert (await bench.newest()).state is OccurrenceState.RUNNING


async def test_a_run_that_a_frozen_coordinator_makes_meanwhile_is_gone_on_with(bench, monkeypatch):
    read = lifecycle.is_new

    async def read_too_early(queue, run_id):
        if not (is_new := await read(queue, run_id)) or await queue.runs():
            return is_new
        await queue.start_run("names", run_id=run_id)  # by one that has lost the lock and wakes up
        for state in (OccurrenceState.STARTING, OccurrenceState.RUNNING):
            await bench.app.schedules.update("nightly", started(run_id, state, await queue.now()))
        return True

    monkeypatch.setattr(lifecycle, "is_new", read_too_early)
    async with bench.coordinator():
        run_id = (await bench.app.schedules.run_now("nightly")).open[0].run_id
        await bench.until(OccurrenceState.RUNNING)
        await bench.drain(run_id)
        one = await bench.until(OccurrenceState.ENDED)
    assert (one.outcome, one.reason) == ("complete", "")


async def test_a_scraper_that_another_process_runs_is_waited_for(bench):
    async with cluster_roles.enqueue_lock(bench.queue, "names", "someone-elses"), bench.coordinator():
        await bench.app.schedules.run_now("nightly")
        async with asyncio.timeout(20):
            while not any("waits:" in text for text in bench.said):
                await asyncio.sleep(0.02)
        assert (await bench.newest()).state is OccurrenceState.DUE

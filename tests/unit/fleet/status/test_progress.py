"""Progress of a run, and what it waits for."""

import asyncio
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from shoal.core.model import Counts, RunState, Stats
from shoal.fleet.status import progress
from shoal.fleet.status import progress as module
from shoal.fleet.status.progress import ProgressReader, Snapshot, follow_progress, with_details
from tests.unit.builders import make_host, make_run, make_worker


def host(name, *, paused=None, pending=1):
    return make_host(
        name, counts=Counts(pending=pending), paused_for=timedelta(seconds=paused) if paused else None
    )


class Queue:
    """A queue that has one run, its counts and its hosts."""

    def __init__(self, stats, *hosts):
        self._stats, self._hosts, self.looks = stats, hosts, 0
        self.at_work, self.worker_looks = (), 0

    async def run(self, run_id):
        return make_run(id=run_id, scraper="s")

    async def stats(self, run_id):
        return self._stats

    async def notes(self, topic, keys=None):
        return {}

    async def workers(self, run_id=None):
        self.worker_looks += 1
        return self.at_work

    async def hosts(self, run_id):
        self.looks += 1
        for one in self._hosts:
            yield one


async def look(stats, *hosts) -> Snapshot:
    return await ProgressReader(Queue(stats, *hosts), "r").read()


async def test_a_run_without_leases_says_which_hosts_it_waits_for():
    hosts = (host("a.example", paused=90), host("b.example"), host("c.example", paused=18))
    snapshot = await look(Stats(pending=3), *hosts)
    assert snapshot.waits_for == "c.example and 1 more, paused for 18 s"
    assert (await look(Stats(pending=1), hosts[0])).waits_for == "a.example, paused for 90 s"


@pytest.mark.parametrize(
    ("stats", "one"),
    [
        (Stats(pending=1, leased=1), host("a.example", paused=9)),
        (Stats(completed=1), host("a.example", paused=9)),
        (Stats(pending=1), host("a.example")),
        (Stats(pending=1), host("a.example", paused=9, pending=0)),
    ],
    ids=["something is in hand", "nothing is left", "no host is paused", "nothing is wanted of it"],
)
async def test_otherwise_it_waits_for_no_host(stats, one):
    assert (await look(stats, one)).waits_for is None


async def test_the_rate_is_never_negative_when_dead_letters_are_replayed_and_is_measured_from_then_on(
    monkeypatch,
):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    queue = Queue(Stats(dead=50, completed=10, pending=20))
    reader, rates = ProgressReader(queue, "r"), []
    for dead, completed in ((50, 10), (50, 30), (0, 30), (0, 40)):
        queue._stats = Stats(dead=dead, completed=completed, pending=20)
        rates.append((await reader.read()).rate)
        now += 2
    assert rates == [0.0, 10.0, 0.0, 5.0]


async def test_a_run_that_finds_as_many_pages_as_it_fetches_has_no_eta(monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    queue = Queue(Stats(pending=40))
    queue.at_work = [worker()]
    reader, etas = ProgressReader(queue, "r"), []
    for completed, pending in ((0, 40), (20, 40), (40, 20)):
        queue._stats = Stats(completed=completed, pending=pending)
        etas.append((await reader.read()).eta_seconds)
        now += 2
    assert etas == [None, None, 2.0]


async def test_hosts_are_not_read_again_at_once():
    queue = Queue(Stats(pending=1), host("a.example", paused=9))
    progress = ProgressReader(queue, "r")
    await progress.read()
    assert (await progress.read()).waits_for and queue.looks == 1


def worker(state="running", *, silent=1.0, **info):
    return make_worker(
        worker_id="elsewhere-1-ab", state=state, last_beat=timedelta(seconds=silent), info=info
    )


@pytest.mark.parametrize(
    ("workers", "state"),
    [
        ([worker()], "running"),
        ([], "waiting"),
        ([worker("ended")], "waiting"),
        ([worker(silent=60)], "waiting"),
        ([worker(role="coordinator")], "waiting"),
        ([worker("died"), worker("frozen")], "running"),
    ],
    ids=["at work", "no worker", "ended", "silent", "a coordinator takes no tasks", "one of two"],
)
async def test_a_run_with_tasks_left_waits_or_is_stopped_unless_a_live_worker_works_on_it(workers, state):
    queue = Queue(Stats(pending=1))
    queue.at_work = workers
    assert (await ProgressReader(queue, "r").read()).state == state
    queue = Queue(Stats(pending=1, completed=1))
    queue.at_work = workers
    assert (await ProgressReader(queue, "r").read()).state == state.replace("waiting", "stopped")


async def test_a_run_without_tasks_left_is_finished_and_its_workers_are_not_read():
    queue = Queue(Stats(completed=1))
    assert (await ProgressReader(queue, "r").read()).state == "finished"
    assert queue.worker_looks == 0


async def test_workers_are_read_again_at_once_only_while_nobody_is_at_work():
    queue = Queue(Stats(pending=1))
    progress = ProgressReader(queue, "r")
    assert (await progress.read()).state == "waiting"
    queue.at_work = [worker()]
    assert (await progress.read()).state == "running"
    await progress.read()
    assert queue.worker_looks == 2
    await progress.read(last=True)
    assert queue.worker_looks == 3


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.RUNNING])
async def test_a_run_that_ended_at_a_limit_or_was_paused_says_that_counts_were_lost(state, monkeypatch):
    queue, lost = Queue(Stats(pending=1, completed=1)), AsyncMock(return_value=True)
    monkeypatch.setattr(module, "has_lost_counts", lost)
    run = await queue.run("r")
    queue.run = AsyncMock(return_value=replace(run, state=state))
    snapshot = await ProgressReader(queue, "r").read()
    assert snapshot.lost_counts and snapshot.as_json()["lost_counts"]
    assert (await with_details(queue, replace(snapshot, lost_counts=False))).lost_counts


async def test_the_last_read_of_a_run_that_others_work_on_says_that_counts_were_lost(monkeypatch):
    queue, lost = Queue(Stats(pending=1)), AsyncMock(return_value=True)
    monkeypatch.setattr(module, "has_lost_counts", lost)
    queue.at_work = [worker()]
    reader = ProgressReader(queue, "r")
    assert not (await reader.read()).lost_counts and not lost.called
    assert (await reader.read(last=True)).lost_counts


async def test_who_shows_no_hosts_does_not_read_them():
    queue = Queue(Stats(pending=1), host("a.example", paused=9))
    await ProgressReader(queue, "r", with_hosts=False).read(last=True)
    assert queue.looks == 0


async def test_links_are_read_once_in_a_last_read():
    queue, topics = Queue(Stats(completed=1)), []
    notes = queue.notes

    async def read_notes(topic, keys=None):
        topics.append(topic)
        return await notes(topic, keys)

    queue.notes = read_notes
    await ProgressReader(queue, "r").read(last=True)
    assert len(topics) == len(set(topics))


async def test_a_run_is_read_less_often_while_nothing_changes_and_its_own_workers_are_known(monkeypatch):
    queue, waits, reported = Queue(Stats(pending=5)), [], []

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 6:
            queue._stats = Stats(pending=4, completed=1)
        if len(waits) == 8:
            raise asyncio.CancelledError

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await follow_progress(ProgressReader(queue, "r"), reported.append, is_at_work=lambda: True)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 0.5, 1.0]
    assert len(reported) == 8 and queue.worker_looks == 0

"""The content of a worker's heartbeat."""

import asyncio
import os
from datetime import timedelta

import pytest

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE
from shoal.fleet.status.overview import worker_row
from shoal.queue.contract import WorkerBeat
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.calls import Listening
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.process.heartbeat import (
    HEARTBEAT_INTERVAL,
    HOUR,
    IDLE_HEARTBEAT_INTERVAL,
    MAX_ERRORS,
    Heartbeat,
    HeartbeatSender,
    last_hour_of,
    memory_of,
)
from tests.unit.builders import make_worker


def heartbeat(**config):
    given = {"queue": "q", "run_id": "r", "worker_id": "w", "scraper": "s", "lease": MINUTE, "memory": 1}
    return Heartbeat(WorkerConfig(**given, **config))


def test_it_names_the_steps_and_partitions_of_the_worker():
    info = heartbeat(steps=["a"], partitions=["CA"]).info(os.getpid(), WorkerCounters(pages=3), 0.0)
    assert (info["steps"], info["partitions"], info["pages"]) == (["a"], ["CA"], 3)
    assert info["memory"] > 1_000_000


def test_pages_of_the_last_hour_are_counted_and_older_ones_are_not():
    beats = heartbeat()
    hours = [sum(beats.spans(pages, pages * 10.0)) for pages in range(720)]
    assert hours[100] == 100
    # 10 seconds a page: 360 an hour, and up to one sample of a minute more.
    assert 360 <= hours[-1] <= 367


def test_the_last_hour_of_an_idle_worker_falls_to_zero():
    beats = heartbeat()
    for now in range(0, 120, 5):
        beats.spans(now, float(now))
    for now in range(120, int(2 * HOUR), 60):
        left = sum(beats.spans(115, float(now)))
    assert left == 0


def status(info, *, completed, silent):
    return make_worker(
        worker_id="w", state="ended", info=info, last_beat=timedelta(seconds=silent), completed=completed
    )


def test_the_last_hour_of_a_worker_that_has_ended_grows_old():
    beats = heartbeat()
    for pages in range(541):  # one each 10 seconds
        info = beats.info(None, WorkerCounters(pages=pages), pages * 10.0)
    ages = [last_hour_of(status(info, completed=540, silent=60 * minutes)) for minutes in range(0, 70, 10)]
    assert 354 <= ages[0] <= 367 and ages == sorted(ages, reverse=True)
    assert 150 <= ages[3] <= 215 and ages[6] == 0


def test_the_last_hour_includes_pages_since_the_last_heartbeat():
    info = heartbeat().info(None, WorkerCounters(pages=20), 0.0)
    assert last_hour_of(status(info, completed=28, silent=4)) == 28
    assert last_hour_of(status({}, completed=28, silent=4)) is None


def test_a_listening_worker_reports_its_own_counts_of_calls():
    tally = WorkerCounters(pages=194, items=200, retried=1, buried=2)
    info = heartbeat(listening=Listening(host="127.0.0.1")).info(None, tally, 0.0, 5)
    assert info["own"] == {"leased": 5, "completed": 194, "failed": 3, "items": 200}
    row = worker_row(status(info, completed=0, silent=1))
    assert (row.completed, row.failed, row.items, row.last_hour) == (194, 3, 200, 194)


def test_the_number_of_error_classes_is_limited():
    tally = WorkerCounters(errors={f"Error{number}": number for number in range(1, 101)})
    errors = heartbeat().info(None, tally, 0.0)["errors"]
    assert len(errors) == MAX_ERRORS and errors["Error100"] == 100


def test_a_process_that_is_gone_has_no_memory():
    assert memory_of(2**22 + 1) is None


@pytest.mark.parametrize("value", ["<b>7</b>", ["1", 2], {"a": 1}, None])
def test_a_value_that_is_no_number_counts_as_zero_and_breaks_no_report(value):
    info = {"spans": value, "pages": value, "own": value}
    row = worker_row(status(info, completed=5, silent=4))
    assert row.completed == 5 and isinstance(row.last_hour, int)


# Sending


class Store:
    """Stores heartbeats when it is told to."""

    def __init__(self, error=None):
        self.calls, self.error, self.is_open = [], error, asyncio.Event()
        self.is_open.set()

    async def beat_together(self, run_id, beats):
        await self.is_open.wait()
        self.calls.append([(beat.worker_id, beat.state) for beat in beats])
        if self.error:
            raise self.error


def test_the_workers_of_a_launcher_send_their_heartbeats_at_the_same_moments(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr("shoal.worker.process.heartbeat.exact_time", lambda: now[0])
    sender = HeartbeatSender(Store(), "run-1")
    moments = set()
    for passed in (0.0, 1.3, 3.1, 0.2):
        now[0] += passed
        idle, busy = (sender.until_next(each) for each in (IDLE_HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL))
        assert 0 < busy <= 5 and busy <= idle <= 10
        moments.update(((now[0] + idle - sender._first) / 5, (now[0] + busy - sender._first) / 5))
    assert all(moment == pytest.approx(round(moment)) for moment in moments)


async def test_heartbeats_of_the_same_moment_are_one_call():
    sender = HeartbeatSender(store := Store(), "run-1")
    await asyncio.gather(*(sender.send(WorkerBeat(worker)) for worker in ("a", "b", "c")))
    await sender.send(WorkerBeat("a", "ended"))
    assert store.calls == [[("a", "running"), ("b", "running"), ("c", "running")], [("a", "ended")]]


async def test_every_supervisor_learns_of_an_error_and_the_next_heartbeats_are_sent():
    sender = HeartbeatSender(store := Store(QueueError("away")), "run-1")
    results = await asyncio.gather(
        *(sender.send(WorkerBeat(worker)) for worker in "ab"), return_exceptions=True
    )
    assert [str(error) for error in results] == ["away", "away"]
    store.error = None
    await sender.send(WorkerBeat("a"))
    assert len(store.calls) == 2


async def test_a_supervisor_that_ends_takes_no_heartbeat_of_others_with_it_and_its_last_one_is_stored_last():
    sender = HeartbeatSender(store := Store(), "run-1")
    store.is_open.clear()
    sending = [asyncio.create_task(sender.send(WorkerBeat(worker))) for worker in "ab"]
    await asyncio.sleep(0.02)
    sending[0].cancel()
    last = asyncio.create_task(sender.send(WorkerBeat("a", "died")))
    await asyncio.sleep(0.02)
    store.is_open.set()
    await asyncio.gather(sending[1], last)
    assert store.calls == [[("a", "running"), ("b", "running")], [("a", "died")]]

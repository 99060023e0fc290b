"""The log of an outage of a queue's server: its start, reports while it lasts, and its end."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.events import QUEUE_AWAY, QUEUE_BACK, STARTS_LATE, Event, Level, event_of
from shoal.fleet.telemetry.logs import NO_LOGS
from shoal.fleet.telemetry.worker_log import WorkerLifecycleLog
from shoal.queue import outages
from shoal.queue.outages import Outage, RetryUntil

LONG = timedelta(minutes=5)


@pytest.fixture
def outage(monkeypatch):
    monkeypatch.setattr(outages, "MIN_WAIT", 0.01)
    monkeypatch.setattr(outages, "MAX_WAIT", 0.02)
    monkeypatch.setattr(outages, "REPORT_AFTER", 0.05)
    return Outage("db")


async def call(outage, until):
    """Retry until the server is back, as every backend does."""
    waiting = RetryUntil(outage, LONG)
    while not until.is_set():
        await waiting.again("refused", OSError())
    outage.end()


def logged(caplog):
    return [(event_of(record), record.getMessage()) for record in caplog.records]


async def test_an_outage_and_its_end_are_logged_once_however_many_calls_wait(outage, caplog):
    back = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(call(outage, back))
        await asyncio.sleep(0.5)
        back.set()
    (away, waiting), (end, again) = logged(caplog)
    assert (away, end) == (QUEUE_AWAY, QUEUE_BACK)
    assert waiting == "Waiting for the queue at db: refused"
    assert again.startswith("The queue at db is back after ") and again.endswith(" s.")


async def test_a_long_outage_is_logged_again_at_intervals_with_its_length(outage, caplog, monkeypatch):
    monkeypatch.setattr(outages, "REPORT_INTERVAL_SECONDS", 0.2)
    back = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(call(outage, back))
        await asyncio.sleep(0.5)
        back.set()
    lines = [text for _, text in logged(caplog)]
    assert 3 <= len(lines) <= 5
    assert all(line.endswith(" s)") and "refused (for " in line for line in lines[1:-1])


async def test_a_short_outage_is_not_logged(outage, caplog):
    waiting = RetryUntil(outage, LONG)
    await waiting.again("refused", OSError())
    outage.end()
    assert logged(caplog) == []


async def test_an_outage_that_outlasts_a_call_is_not_logged_again_by_the_next_one(outage, caplog):
    for _ in range(5):
        waiting = RetryUntil(outage, timedelta(seconds=0.2))
        with pytest.raises(QueueUnavailable):
            while True:
                await waiting.again("refused", OSError())
    outage.end()
    assert [name for name, _ in logged(caplog)] == [QUEUE_AWAY, QUEUE_BACK]


@pytest.mark.parametrize("name", [QUEUE_AWAY, STARTS_LATE])
def test_what_many_workers_warn_of_is_shown_once_a_minute(name):
    shown = []
    log = WorkerLifecycleLog(NO_LOGS, "run", shown.append)
    for number in range(8):
        for at in (100.0 + number, 165.0 + number / 10):
            event = Event(at=at, level=Level.WARNING, name=name, fields={"message": f"seen at {at:.0f}"})
            log.entry(number, f"worker-{number}").log_event(event)
    assert shown == ["seen at 100", "seen at 165"]

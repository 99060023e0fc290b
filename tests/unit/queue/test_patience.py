"""What is said while a queue's server is away: its start, now and then that it still is, and its end."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.events import QUEUE_AWAY, QUEUE_BACK, Event, Level, event_of
from shoal.fleet.logs import NO_LIBRARY
from shoal.fleet.rollcall import RollCall
from shoal.queue import patience
from shoal.queue.patience import Outage, Patience

LONG = timedelta(minutes=5)


@pytest.fixture
def outage(monkeypatch):
    monkeypatch.setattr(patience, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(patience, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(patience, "UNNOTICED", 0.05)
    return Outage("db")


async def call(outage, until):
    """Try until the server is there, as every backend does."""
    waiting = Patience(outage, LONG)
    while not until.is_set():
        await waiting.again("refused", OSError())
    outage.end()


def said(caplog):
    return [(event_of(record), record.getMessage()) for record in caplog.records]


async def test_an_outage_is_said_once_however_many_calls_wait_and_so_is_its_end(outage, caplog):
    back = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(call(outage, back))
        await asyncio.sleep(0.5)
        back.set()
    (away, waiting), (end, again) = said(caplog)
    assert (away, end) == (QUEUE_AWAY, QUEUE_BACK)
    assert waiting == "Waiting for the queue at db: refused"
    assert again.startswith("The queue at db is back after ") and again.endswith(" s.")


async def test_a_long_outage_is_said_again_now_and_then_with_its_length(outage, caplog, monkeypatch):
    monkeypatch.setattr(patience, "TELL_EVERY", 0.2)
    back = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(call(outage, back))
        await asyncio.sleep(0.5)
        back.set()
    lines = [text for _, text in said(caplog)]
    assert 3 <= len(lines) <= 5
    assert all(line.endswith(" s)") and "refused (for " in line for line in lines[1:-1])


async def test_a_short_one_is_not_said_at_all(outage, caplog):
    waiting = Patience(outage, LONG)
    await waiting.again("refused", OSError())
    outage.end()
    assert said(caplog) == []


async def test_an_outage_that_outlasts_a_call_is_not_said_anew_by_the_next_one(outage, caplog):
    for _ in range(5):
        waiting = Patience(outage, timedelta(seconds=0.2))
        with pytest.raises(QueueUnavailable):
            while True:
                await waiting.again("refused", OSError())
    outage.end()
    assert [name for name, _ in said(caplog)] == [QUEUE_AWAY, QUEUE_BACK]


def test_workers_that_wait_for_the_queue_as_their_launcher_does_say_nothing_about_it():
    shown = []
    roll = RollCall(NO_LIBRARY, "run", shown.append)

    def told(number, at, logger, text):
        fields = {"logger": logger, "message": text}
        event = Event(at=at, level=Level.WARNING, name=QUEUE_AWAY, fields=fields)
        roll.entry(number, f"worker-{number}").told(event)

    for number in range(4):
        told(number, 100.0, patience.__name__, "Waiting for the queue")
        told(number, 130.0, "shoal.worker.retrying", "The worker cannot claim")
    assert shown == ["The worker cannot claim"]
    told(0, 191.0, "shoal.worker.retrying", "The worker cannot settle")
    assert shown == ["The worker cannot claim", "The worker cannot settle"]

import asyncio
from datetime import timedelta

import pytest

from shoal.core import tasks
from shoal.core.errors import QueueError
from shoal.core.model import SECOND
from shoal.core.tasks import exchange_last, repeat


class Exchange:
    """Fails with the given errors, one a call, and then succeeds."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    async def __call__(self):
        self.calls += 1
        if self.errors and (error := self.errors.pop(0)):
            raise error


@pytest.fixture
def slept(monkeypatch):
    """Let no time pass, and end after ten intervals; return the seconds of each."""
    seconds = []

    async def sleep(interval):
        seconds.append(interval)
        if len(seconds) == 10:
            raise asyncio.CancelledError

    monkeypatch.setattr(tasks.asyncio, "sleep", sleep)
    return seconds


async def test_an_exchange_is_repeated_at_intervals_that_differ_a_little(slept):
    exchange = Exchange()
    with pytest.raises(asyncio.CancelledError):
        await repeat(exchange, 10 * SECOND)
    assert exchange.calls == 9, "the first one waits"
    assert all(8 <= seconds <= 12 for seconds in slept) and len(set(slept)) > 1


async def test_without_jitter_the_intervals_are_equal_and_the_first_exchange_may_be_at_once(slept):
    exchange = Exchange()
    with pytest.raises(asyncio.CancelledError):
        await repeat(exchange, 10 * SECOND, jitter=0, at_once=True)
    assert exchange.calls == 10 and set(slept) == {10}


async def test_an_unreachable_queue_does_not_end_it(slept):
    exchange = Exchange(QueueError("away"), None, QueueError("away"))
    with pytest.raises(asyncio.CancelledError):
        await repeat(exchange, SECOND)
    assert exchange.calls == 9


async def test_any_other_error_is_raised(slept):
    with pytest.raises(ZeroDivisionError):
        await repeat(Exchange(None, ZeroDivisionError()), SECOND)


async def test_the_last_exchange_survives_a_queue_that_is_away_or_does_not_reply():
    await exchange_last(Exchange(QueueError("away")), SECOND)
    await exchange_last(asyncio.Event().wait, timedelta(milliseconds=1))
    with pytest.raises(ZeroDivisionError):
        await exchange_last(Exchange(ZeroDivisionError()), SECOND)

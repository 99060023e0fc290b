"""Workers that may go on for only so long."""

import asyncio
from datetime import timedelta

import pytest

from shoal.fleet import timeup
from shoal.fleet.timeup import within

SOON = timedelta(milliseconds=20)


class Crew:
    def __init__(self):
        self.in_hand, self.stops, self.is_asked = 3, 0, asyncio.Event()

    def stop(self):
        self.stops += 1
        self.is_asked.set()
        return self.stops


async def asked(crew):
    async with asyncio.timeout(10):
        await crew.is_asked.wait()
    crew.is_asked.clear()


async def test_when_the_time_is_up_what_is_in_hand_is_finished_and_then_handed_back(monkeypatch):
    monkeypatch.setattr(timeup, "GRACE", SOON)
    crew, said = Crew(), []
    with within(SOON, crew, said.append):
        await asked(crew)
        assert said == ["The time is up: finishing 3 tasks."]
        await asked(crew)
    assert (crew.stops, said[1:]) == (2, ["Handing 3 tasks back."])


async def test_who_was_asked_to_stop_before_is_asked_no_more():
    crew = Crew()
    crew.stop()
    with within(SOON, crew, pytest.fail):
        await asyncio.sleep(3 * SOON.total_seconds())
    assert crew.stops == 1


@pytest.mark.parametrize("span", [None, SOON])
async def test_after_its_end_nobody_is_asked(span):
    crew = Crew()
    with within(span, crew, pytest.fail):
        pass
    await asyncio.sleep(3 * SOON.total_seconds())
    assert crew.stops == 0

"""Many processes on one note: no swap is lost, where plain writes lose each other."""

import pytest

from tests.conformance.backends import Bench, Place, lasting
from tests.conformance.counter import KEY, TOPIC
from tests.integration.crew import reports_of

PROCESSES, TIMES = 4, 25


async def counted(bench: Bench, place: Place, by: str) -> int:
    """Let processes count up the note, and return where it got to."""
    orders = [{"url": place.address, "by": by, "times": TIMES}] * PROCESSES
    await reports_of("tests.conformance.counter", orders)
    return int((await bench.queue.notes(TOPIC))[KEY].value)


@lasting
@pytest.mark.long
async def test_no_swap_is_lost(bench: Bench, place: Place) -> None:
    assert await counted(bench, place, "swap") == PROCESSES * TIMES


@pytest.mark.long
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_plain_writes_lose_each_other(bench: Bench, place: Place) -> None:
    assert await counted(bench, place, "write") < PROCESSES * TIMES

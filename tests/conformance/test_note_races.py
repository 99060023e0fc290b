"""Many processes on one note: no swap is lost, while plain writes overwrite each other."""

import pytest

from tests.conformance.backends import Bench, StoreUnderTest, lasting, only_on
from tests.conformance.counter import KEY, TOPIC
from tests.integration.programs import reports_of

PROCESSES, TIMES = 4, 25


@pytest.fixture
def cluster_shards() -> None:
    """As many as there are: the processes of these tests do not know of fewer."""


async def count_up(bench: Bench, store: StoreUnderTest, by: str) -> int:
    """Let processes increment the note, and return its final value."""
    orders = [{"url": store.address, "by": by, "times": TIMES}] * PROCESSES
    await reports_of("tests.conformance.counter", orders)
    return int((await bench.queue.notes(TOPIC))[KEY].value)


@lasting
@pytest.mark.long
async def test_no_swap_is_lost(bench: Bench, store: StoreUnderTest) -> None:
    assert await count_up(bench, store, "swap") == PROCESSES * TIMES


@pytest.mark.long
@only_on("postgres")
async def test_plain_writes_lose_each_other(bench: Bench, store: StoreUnderTest) -> None:
    assert await count_up(bench, store, "write") < PROCESSES * TIMES

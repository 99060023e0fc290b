"""The figures of the page on queues are those that were recorded, and its addresses open queues."""

import re

import pytest

from shoal.queue.open import BACKENDS
from tests.unit.docs.pages import DOCS, rows

TEXT = (DOCS / "explanation" / "queues.md").read_text()


def test_the_figures_of_memory_and_of_rabbitmq_are_those_of_the_results():
    results = (DOCS / "reference" / "results.md").read_text()
    head = next(
        line for line in results.splitlines() if line.startswith("| bytes of Redis per pending URL |")
    )
    redis, rabbitmq = rows(results, head)
    assert redis[1:] == ["89", "156", "792", "365"] and rabbitmq[1] == "23"
    assert (
        "about 89 bytes for a URL of 60 characters" in TEXT and "792 when each has a host of its own" in TEXT
    )
    assert pytest.approx(4, abs=0.2) == 365 / 89 and "about four times the memory" in TEXT
    assert "about 23 bytes of Redis instead of 89" in TEXT
    speeds = re.search(r"RabbitMQ ([\d,]+ to [\d,]+) tasks/s, Redis ([\d,]+ to [\d,]+)\.", results)
    assert f"{speeds[1]} tasks a second against {speeds[2]} in the same measurement" in TEXT


def test_the_addresses_are_of_the_queues_that_there_are():
    address, install = rows(TEXT, "| | SQLite | PostgreSQL | Redis | RabbitMQ with Redis |")[:2]
    for cell, extra in zip(address[1:], install[1:], strict=True):
        backend = BACKENDS[cell.strip("`").partition(":")[0]]
        assert backend.load()
        assert extra == (
            f"`pip install 'shoal[{backend.extra}]'`" if backend.extra else "`pip install shoal`"
        )

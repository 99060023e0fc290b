"""Every promise of the page names tests, and they are there."""

import re

import pytest

from shoal.core.model import MINUTE
from shoal.fleet.job import LEASE
from shoal.queue.open import open_queue
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.redis import durability as redis
from tests.unit.docs.pages import DOCS, ROOT, rows

TEXT = (DOCS / "explanation" / "guarantees.md").read_text()
TESTS = dict(re.findall(r"^(\d+)\. `(.*?)`", TEXT.partition("## The tests")[2], re.MULTILINE))
HEADS = [line for line in TEXT.splitlines() if line.startswith("|") and line.endswith("| tests |")]


@pytest.mark.parametrize("number", TESTS)
def test_the_test_is_there(number):
    file, _, name = TESTS[number].partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_row_names_tests_that_are_listed():
    promised = [row for head in HEADS for row in rows(TEXT, head)]
    assert len(HEADS) >= 4 and len(promised) > 15
    for row in promised:
        numbers = re.findall(r"\d+", row[-1])
        assert numbers, row
        assert set(numbers) <= TESTS.keys(), row


def test_every_test_that_is_listed_is_spoken_of():
    above = TEXT.partition("## The tests")[0]
    assert {number for number in TESTS if not re.search(rf"\b{number}\b", above)} == set()
    assert list(TESTS) == [str(number) for number in range(1, len(TESTS) + 1)]


def test_the_numbers_are_those_of_the_code():
    assert LEASE == MINUTE and "run out within a minute" in TEXT
    assert f"{RETRY_TIMEOUT.total_seconds():.0f} seconds for each call" in TEXT


def power_cut():
    return {row[1].strip("`"): row[2] for row in rows(TEXT, "| store | settings | a power cut costs |")}


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_what_a_power_cut_costs_on_redis_is_what_redis_says(fsync):
    cost = power_cut()[f"appendonly yes`, `appendfsync {fsync}"]
    assert (f"cost {cost}" if fsync == "everysec" else f"costs {cost}") in redis._SYNCED[fsync]


async def test_what_a_power_cut_costs_on_sqlite_is_what_sqlite_says(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/a.db") as queue:
        assert "a power cut can cost the last moments" in (await queue.durability()).text
    async with open_queue(f"sqlite:///{tmp_path}/b.db?synchronous=full") as queue:
        assert "a crash costs nothing" in (await queue.durability()).text
    assert power_cut()["sqlite:///shoal.db?synchronous=full"] == "nothing"
    assert "| SQLite | as it comes | the last moments: " in TEXT

"""Statistics that scrapers count themselves, over the workers of a run."""

import msgspec
import pytest

from shoal.fleet.scraper_stats import add_stats, read_stats, stats_topic, write_stats


@pytest.mark.parametrize(
    ("name", "values", "total"),
    [
        ("pages", [2, 3], 5),
        ("seconds", [0.5, 1], 1.5),
        ("memory/max", [7, 9, 8], 9),
        ("request_depth_max", [1, 4], 4),
        ("size/min", [7, 9], 7),
        (
            "start_time",
            ["2026-01-01T10:00:00+00:00", "2026-01-01T09:00:00+00:00"],
            "2026-01-01T09:00:00+00:00",
        ),
        (
            "finish_time",
            ["2026-01-01T10:00:00+00:00", "2026-01-01T09:00:00+00:00"],
            "2026-01-01T10:00:00+00:00",
        ),
        ("finish_reason", ["shutdown", "finished", "finished"], "finished, shutdown"),
        ("mixed", [1, "a"], "1, a"),
        ("empty", [None, 1], 1),
    ],
)
def test_numbers_add_and_bounds_stay_bounds(name, values, total):
    assert add_stats({name: value} for value in values) == {name: total}


def test_the_time_that_passed_is_that_of_all_workers_together():
    span = {"start_time": "2026-01-01T09:00:00+00:00", "finish_time": "2026-01-01T09:00:20+00:00"}
    later = {"start_time": "2026-01-01T09:00:10+00:00", "finish_time": "2026-01-01T09:00:50+00:00"}
    total = add_stats(one | {"elapsed_time_seconds": 30.0} for one in (span, later))
    assert total["elapsed_time_seconds"] == 50.0


async def test_each_worker_replaces_its_own_statistics(queue):
    await write_stats(queue, "run", "a", {"pages": 1})
    await write_stats(queue, "run", "a", {"pages": 2})
    await write_stats(queue, "run", "b", {"pages": 3})
    await write_stats(queue, "another", "a", {"pages": 100})
    assert await read_stats(queue, "run") == {"pages": 5}
    note = (await queue.notes(stats_topic("run"), ["b"]))["b"]
    assert msgspec.json.decode(note.value) == {"pages": 3}

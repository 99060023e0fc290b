"""The order of the tests gives each worker its share of the slow ones."""

from pathlib import Path
from types import SimpleNamespace

from tests.order import sort_for_workers


def item(number, file="test_any.py", limit=None):
    return SimpleNamespace(
        number=number,
        nodeid=f"tests/{file}::test_{number}",
        path=Path(f"tests/{file}"),
        get_closest_marker=lambda name: limit and SimpleNamespace(args=[limit]),
    )


def test_every_test_runs_once_and_each_worker_begins_with_a_slow_one():
    items = [
        item(number, f"test_{number % 7}.py", 600 if number % 50 == 49 else None) for number in range(100)
    ]
    ordered = sort_for_workers(items, 2)
    assert sorted(one.number for one in ordered) == list(range(100))
    assert {ordered[0].number, ordered[50].number} == {49, 99}

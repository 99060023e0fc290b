"""The arithmetic of the queue, fleet and haul benchmarks, and the processes that they start."""

import math

from tools.bench.draining import pace
from tools.bench.report import Figure, at_least, at_most, percentile, table
from tools.bench.workload import mostly_seen, new_tasks


def test_nine_in_ten_are_known_and_none_twice_within_a_batch():
    known = {task.url for task in new_tasks(0, 10_000)}
    tasks = list(mostly_seen(20_000, seen=10_000))
    assert sum(task.url in known for task in tasks) == 18_000
    assert len({task.url for task in tasks if task.url not in known}) == 2_000
    assert len({task.url for task in tasks[:2_000]}) == 2_000


def test_the_pace_counts_from_the_first_start_to_the_last_end_of_those_who_worked():
    results = [
        {"tasks": 300, "began": 10.0, "ended": 12.0},
        {"tasks": 100, "began": 11.0, "ended": 14.0},
        {"tasks": 0, "began": 1.0, "ended": 0.0},
    ]
    assert pace(results) == 100
    assert [percentile(range(100, 0, -1), share) for share in (0.5, 0.99, 1, 0.001)] == [50, 99, 100, 1]


def test_a_verdict_says_on_which_side_of_its_bar_a_figure_is():
    cases = [(at_least(10), 10), (at_least(10), 9.9), (at_most(2), 2), (at_most(2), math.nan), (None, 1)]
    figures = [Figure("some", value, "x", bar) for bar, value in cases]
    assert [figure.verdict for figure in figures] == ["met", "MISSED", "met", "MISSED", ""]
    assert table([Figure("enqueue", 41_234, "tasks/s", at_least(30_000))]).splitlines() == [
        "scenario  figure  unit     bar        met",
        "enqueue   41,234  tasks/s  >= 30,000  ✓",
    ]

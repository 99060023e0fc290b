"""What benchmarks measure is what they say, and wrong output is found out."""

import json
import math

import pytest

from tools.bench.crawl.check import WrongOutput, check
from tools.bench.crawl.field import racers
from tools.bench.crawl.race import Result
from tools.bench.crawl.site import Truth
from tools.bench.crawl.summary import rows
from tools.bench.draining import pace
from tools.bench.report import Figure, at_least, at_most, percentile, table
from tools.bench.workload import mostly_seen, new_tasks

ORIGIN = "http://127.0.0.1:8000"
TRUTHS = [Truth("/a", "A", 1), Truth("/b", "B", 2)]
GOOD = [
    {"url": f"{ORIGIN}/b#part", "title": "B", "links": 2},
    {"url": f"{ORIGIN}/a", "title": "A", "links": 1},
]


def result(racer: str, seconds: float, task: str = "A", **changes) -> Result:
    facts = {
        "task": task,
        "racer": racer,
        "pages": 1_000,
        "seconds": seconds,
        "crawl_seconds": seconds / 2,
        "cpu": seconds,
        "store_cpu": 0.0,
        "memory_mb": 100.0,
        "others": 0.0,
    }
    return Result(**(facts | changes))


def test_lines_in_any_order_and_with_fragments_are_right_and_wrong_output_is_found_out():
    check(map(json.dumps, GOOD), TRUTHS, ORIGIN)
    for lines, says in (
        (GOOD[:1], "1 of 2 pages missing"),
        ([*GOOD, GOOD[0]], "1 lines too many"),
        ([GOOD[0], {**GOOD[1], "title": "Â"}], "1 of 2 pages missing"),
        ([GOOD[0], {**GOOD[1], "links": 0}], "1 of 2 pages missing"),
    ):
        with pytest.raises(WrongOutput, match=says):
            check(map(json.dumps, lines), TRUTHS, ORIGIN)


def test_a_row_is_the_median_of_its_heats_without_those_that_others_disturbed():
    (row,) = rows([result("bare", seconds) for seconds in (1, 2, 10)], racers())
    assert (row.whole_rate, row.rate, row.cpu_ms, row.heats) == (500, 1_000, 2, 3)
    (row,) = rows([result("bare", 10, others=1.2), result("bare", 2)], racers())
    assert (row.whole_rate, row.heats) == (500, 1)
    (row,) = rows([result("bare", 10, others=1.2)], racers())
    assert (row.whole_rate, row.others) == (100, 1.2)


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

"""The benchmark's own arithmetic, and the processes it starts."""

import asyncio
import json
import math
import os
from itertools import islice
from pathlib import Path

import pytest

from tools.bench.children import ChildFailed, run_processes
from tools.bench.draining import pace
from tools.bench.pages import HOSTS, host, url
from tools.bench.report import Figure, at_least, at_most, percentile, shown, table, write_json
from tools.bench.scale import BIG, DEFAULT, QUICK
from tools.bench.scenarios import scenarios
from tools.bench.workload import mostly_seen, new_tasks


async def greet(gate, *, number, name):
    await gate()
    print("this is no answer")
    return {"greeting": f"{name} {number}", "pid": os.getpid()}


async def stumble(gate, *, number):
    await gate()
    if number == 1:
        raise ValueError("it went wrong")
    await asyncio.Event().wait()


async def vanish(gate, *, number):
    os._exit(3)


HERE = "tests.unit.tools.test_bench"


def test_a_url_has_sixty_characters_and_the_host_it_should():
    assert len(url(123_456_789, 1_000)) == 60
    assert url(1_002, 1_000).startswith(f"https://{host(2)}/")


def test_new_tasks_are_all_different():
    assert len({task.url for task in new_tasks(5, 3_000)}) == 3_000


def test_nine_in_ten_are_known_and_none_twice_within_a_batch():
    known = {task.url for task in new_tasks(0, 10_000)}
    tasks = list(mostly_seen(20_000, seen=10_000))
    assert sum(task.url in known for task in tasks) == 18_000
    assert len({task.url for task in tasks if task.url not in known}) == 2_000
    assert len({task.url for task in islice(tasks, 2_000)}) == 2_000


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 50), (0.99, 99), (1, 100), (0.001, 1)], ids=["median", "p99", "all", "least"]
)
def test_a_percentile_is_a_value_that_was_seen(share, value):
    assert percentile(range(100, 0, -1), share) == value


def test_the_pace_counts_from_the_first_start_to_the_last_end_of_those_who_worked():
    results = [
        {"tasks": 300, "began": 10.0, "ended": 12.0},
        {"tasks": 100, "began": 11.0, "ended": 14.0},
        {"tasks": 0, "began": 1.0, "ended": 0.0},
    ]
    assert pace(results) == 100


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (at_least(10), 10, "met"),
        (at_least(10), 9.9, "MISSED"),
        (at_most(2), 2, "met"),
        (at_most(2), 2.1, "MISSED"),
        (at_most(2), math.nan, "MISSED"),
        (None, 1, ""),
    ],
)
def test_a_verdict_says_on_which_side_of_its_bar_a_figure_is(bar, value, verdict):
    assert Figure("some", value, "x", bar).verdict == verdict


def test_numbers_are_shown_with_the_digits_that_mean_something():
    assert [shown(n) for n in (12_345.6, 99.96, 12.34, 1.234)] == ["12,346", "100.0", "12.3", "1.23"]


def test_the_table_lines_up():
    figures = [Figure("enqueue", 41_234, "tasks/s", at_least(30_000)), Figure("claim, p99", 7.5, "ms")]
    assert table(figures).splitlines() == [
        "scenario    figure  unit     bar        met",
        "enqueue     41,234  tasks/s  >= 30,000  ✓",
        "claim, p99    7.50  ms",
    ]


def test_the_json_holds_every_figure_with_its_details(tmp_path):
    figure = Figure("enqueue", 41_234, "tasks/s", at_least(30_000), {"tasks": 7})
    write_json(tmp_path / "out.json", [figure], {"scale": "quick"})
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["scale"] == "quick"
    assert written["figures"][0]["detail"] == {"tasks": 7}
    assert written["figures"][0]["verdict"] == "met"


def test_only_the_big_scale_streams_and_names_are_unique():
    names = {scale.name: [one.name for one in scenarios(scale)] for scale in (QUICK, DEFAULT, BIG)}
    assert names["quick"] == names["default"]
    assert set(names["big"]) - set(names["default"]) == {"postgres-stream", "sqlite-stream"}
    assert len(set(names["big"])) == len(names["big"])


@pytest.mark.parametrize("scale", [QUICK, DEFAULT, BIG], ids=lambda scale: scale.name)
def test_every_load_can_be_split_between_two_processes(scale):
    loads = [*scale.pending, scale.small + scale.churn, scale.one_host, scale.many_hosts[0], scale.blocked[0]]
    assert all(count % 2 == 0 for count in loads)


@pytest.mark.parametrize("scale", [QUICK, DEFAULT, BIG], ids=lambda scale: scale.name)
def test_a_host_has_as_many_tasks_in_the_cells_that_are_compared(scale):
    assert {tasks / hosts for tasks, hosts in (scale.many_hosts, scale.blocked)} == {scale.small / HOSTS}


async def test_children_reply_in_order_from_processes_of_their_own():
    results = await run_processes(2, f"{HERE}:greet", name="claimer")
    assert [result["greeting"] for result in results] == ["claimer 0", "claimer 1"]
    assert len({os.getpid(), *(result["pid"] for result in results)}) == 3


async def test_children_fail_with_the_first_of_them_and_none_is_left():
    with pytest.raises(ChildFailed, match="ValueError: it went wrong"):
        await run_processes(2, f"{HERE}:stumble")
    assert not _children()


async def test_a_member_that_vanishes_is_missed():
    with pytest.raises(ChildFailed, match="without a result"):
        await run_processes(1, f"{HERE}:vanish")


def _children():
    """Return the command lines of this process's children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                found.append((stat.parent / "cmdline").read_text())
        except OSError:
            continue
    return [command for command in found if "tools.bench.child" in command]

"""The arithmetic of the queue, fleet and haul benchmarks, and the processes that they start."""

import asyncio
import math
import os
import re
import tempfile
from pathlib import Path

import pytest

from tools import bench_queue
from tools.bench.children import ChildFailed, run_processes
from tools.bench.draining import pace
from tools.bench.fleet.measure import TINY, _phase, measure
from tools.bench.fleet.servers import Counters, SqliteFleet
from tools.bench.haul.crawl import tenths
from tools.bench.report import Figure, at_least, at_most, percentile, table
from tools.bench.scale import BIG, DEFAULT, QUICK
from tools.bench.scenarios import scenarios
from tools.bench.workload import mostly_seen, new_tasks

HERE = "tests.unit.tools.test_bench"


async def greet(gate, *, number, name):
    await gate()
    print("this is no answer")
    return {"greeting": f"{name} {number}", "pid": os.getpid()}


async def stumble(gate, *, number):
    await gate()
    if number == 1:
        raise ValueError("it went wrong")
    await asyncio.Event().wait()


async def test_children_reply_in_order_from_processes_of_their_own():
    results = await run_processes(2, f"{HERE}:greet", name="claimer")
    assert [result["greeting"] for result in results] == ["claimer 0", "claimer 1"]
    assert len({os.getpid(), *(result["pid"] for result in results)}) == 3


async def test_children_fail_with_the_first_of_them_and_none_is_left():
    with pytest.raises(ChildFailed, match="ValueError: it went wrong"):
        await run_processes(2, f"{HERE}:stumble")
    running = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in running]
    assert not [command for command in commands if "tools.bench.child" in command]


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


def test_names_may_be_repeated_and_hold_a_star_and_come_in_the_benchmarks_order():
    for scale in (QUICK, DEFAULT, BIG):
        names = [one.name for one in scenarios(scale)]
        assert len(set(names)) == len(names)
    chosen = bench_queue._chosen(scenarios(DEFAULT), ["sqlite-settle", "*-enqueue,"])
    assert [one.name for one in chosen] == [
        "postgres-enqueue",
        "sqlite-enqueue",
        "sqlite-settle",
        "redis-enqueue",
        "rabbitmq-enqueue",
    ]
    with pytest.raises(SystemExit, match=re.escape("No scenario is called 'rediss'. Did you mean 'redis'")):
        bench_queue._chosen(scenarios(DEFAULT), ["rediss"])


def test_a_phase_of_a_fleet_counts_what_happened_between_its_samples():
    samples = [(float(at), Counters(cpu=0.1 * at, queries=50 * at, connections=9)) for at in range(10)]
    report = {
        "claims": [[1.0, 9.0, 0], [3.0, 0.1, 0], [4.0, 0.3, 5], [8.0, 9.0, 0]],
        "settled": [[float(at), 10 * at] for at in range(10)],
        "lags": [[3.0, 0.01], [4.0, 0.02], [9.0, 5.0]],
        "failures": 1,
    }
    busier = {**report, "lags": [[3.0, 0.2]], "claims": [[3.0, 0.7, 0], [4.0, 0.6, 0]]}
    phase = _phase([report, report | busier, busier], samples, 2.2, 6.9)
    assert (phase.seconds, phase.queries, phase.tasks, phase.failures) == (5, 50, 150, 3)
    # The first process is the probe: the others' claims also wait for their own work.
    assert (phase.probed.seconds, phase.probed.full, phase.probed.lag) == ([0.1, 0.3], 0.5, 0.01)
    assert phase.simulated.seconds == [0.6, 0.6, 0.7, 0.7] and phase.simulated.lag == 0.2


def test_each_process_of_a_haul_has_its_own_tenths_and_their_rates_add_up():
    marks = [[float(at), 0.5 * at, 100 * at] for at in range(11)]
    parts = tenths([{"marks": marks}, {"marks": marks}], [(0.0, 0.0), (5.0, 10.0), (10.0, 20.0)])
    assert len(parts) == 10 and {part.rate for part in parts} == {200}
    assert parts[0].server_cpu == pytest.approx(0.01), "two seconds of the server for 200 tasks"


@pytest.mark.long
async def test_a_fleet_of_twenty_on_sqlite_settles_tasks_and_rests_when_it_has_none():
    with tempfile.TemporaryDirectory() as folder:
        figures = [figure async for figure in measure(SqliteFleet(folder), 20, TINY)]
    found = {figure.scenario.rpartition(": ")[2]: figure.value for figure in figures}
    assert found["tasks"] > 0 and found["claims"] > 0
    assert found["idle worker, claims among them"] < 1

"""The arithmetic of the fleet and haul benchmarks, and the smallest fleet there is."""

import tempfile
from collections import Counter

import pytest

from tools.bench.fleet.measure import TINY, _phase, _split, measure
from tools.bench.fleet.servers import Counters, SqliteFleet
from tools.bench.fleet.workload import LEAST, seeds
from tools.bench.haul.crawl import HOSTS, Route, tenths
from tools.bench.haul.sizes import family, main_parts


def test_the_largest_host_has_many_times_the_pages_of_most_and_no_page_is_there_twice():
    urls = [task.url for task in seeds(200)]
    sizes = sorted(Counter(url.split("/")[2] for url in urls).values())
    assert len(sizes) == 200 and len(set(urls)) == len(urls)
    assert sizes[0] >= LEAST and sizes[-1] > 20 * sizes[100]


def test_a_phase_counts_what_happened_between_its_samples():
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
    assert phase.cpu == pytest.approx(0.5)
    assert (phase.claims, phase.full) == (6, pytest.approx(1 / 6))
    # The first process is the probe: the others' claims also wait for their own work.
    assert (phase.probed.seconds, phase.probed.full, phase.probed.lag) == ([0.1, 0.3], 0.5, 0.01)
    assert phase.probed.percentile(0.99) == 300
    assert phase.simulated.seconds == [0.6, 0.6, 0.7, 0.7] and phase.simulated.lag == 0.2


@pytest.mark.parametrize(
    ("workers", "processes", "split"),
    [(2_000, 2, [200, 900, 900]), (200, 3, [20, 60, 60, 60]), (4, 1, [1, 3])],
)
def test_a_few_workers_are_the_probe_and_the_processes_share_the_others(workers, processes, split):
    assert _split(workers, processes) == split


def test_the_next_page_of_a_haul_is_new_and_on_the_same_host():
    route = Route(1_000_000)
    assert route.seeds % HOSTS == 0 and route.seeds == 100_000
    assert Route(5).seeds == HOSTS


def test_each_process_has_its_own_tenths_and_their_rates_add_up():
    marks = [[float(at), 0.5 * at, 100 * at] for at in range(11)]
    samples = [(0.0, 0.0), (5.0, 10.0), (10.0, 20.0)]
    parts = tenths([{"marks": marks}, {"marks": marks}], samples)
    assert len(parts) == 10
    assert {part.rate for part in parts} == {200}
    assert parts[0].client_cpu == pytest.approx(0.005)
    assert parts[0].server_cpu == pytest.approx(0.01), "two seconds of the server for 200 tasks"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("{shoal:0}:7:q:1:5:www.shop-000001.example", "*:q:*:*:*"),
        ("{shoal:0}:7:items", "*:items"),
        ("{shoal:0}:gates", "gates"),
    ],
)
def test_keys_that_differ_in_numbers_and_hosts_are_one_family(key, name):
    assert family(key) == name


def test_small_parts_of_a_store_are_shown_as_one():
    assert main_parts({"items": 9_000, "tasks": 900, "a": 30, "b": 20}) == {
        "items": 9_000,
        "tasks": 900,
        "others": 50,
    }


@pytest.mark.long
async def test_a_fleet_of_twenty_on_sqlite_settles_tasks_and_rests_when_it_has_none():
    with tempfile.TemporaryDirectory() as folder:
        figures = [figure async for figure in measure(SqliteFleet(folder), 20, TINY)]
    found = {figure.scenario.rpartition(": ")[2]: figure.value for figure in figures}
    assert found["tasks"] > 0 and found["claims"] > 0
    assert found["idle worker, claims among them"] < 1

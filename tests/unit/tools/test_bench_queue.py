"""Which scenarios a command line means, and what the benchmark's tables promise."""

import re

import pytest

from tools import bench_queue
from tools.bench import memory
from tools.bench.report import Figure, at_least, table
from tools.bench.scale import BIG, DEFAULT, QUICK
from tools.bench.scenarios import scenarios
from tools.bench.stores import Store

ALL = scenarios(DEFAULT)


def chosen(*only):
    return [scenario.name for scenario in bench_queue._chosen(ALL, only or None)]


def test_without_a_word_everything_is_measured():
    assert chosen() == [scenario.name for scenario in ALL]


def test_names_stand_side_by_side_with_commas_and_a_beginning_means_all_that_follows():
    names = chosen("redis,rabbitmq,peers")
    assert {name.partition("-")[0] for name in names} == {"redis", "rabbitmq", "peers"}
    assert {"redis-memory", "rabbitmq-settle", "peers-redis", "peers-postgres"} <= set(names)


def test_names_may_be_repeated_and_hold_a_star_and_come_in_the_benchmarks_order():
    assert chosen("sqlite-settle", "*-enqueue,") == [
        "postgres-enqueue",
        "sqlite-enqueue",
        "sqlite-settle",
        "redis-enqueue",
        "rabbitmq-enqueue",
    ]


@pytest.mark.parametrize(("word", "hint"), [("rediss", "'redis'"), ("peers-rabit", "'peers-rabbitmq'")])
def test_a_name_that_means_nothing_is_refused_with_the_nearest(word, hint):
    with pytest.raises(SystemExit, match=f"No scenario is called '{word}'. Did you mean {re.escape(hint)}"):
        chosen(word)


def test_redis_and_rabbitmq_are_measured_by_the_same_verbs():
    verbs = {
        store: [scenario.name.partition("-")[2] for scenario in ALL if scenario.name.startswith(f"{store}-")]
        for store in ("redis", "rabbitmq")
    }
    assert verbs["redis"] == verbs["rabbitmq"] == ["enqueue", "settle", "memory"]


def test_a_bar_is_shown_as_met_or_missed():
    rows = [Figure("a", 9, "x", at_least(10)), Figure("b", 10, "x", at_least(10)), Figure("c", 1, "x")]
    assert [line.split()[-1] for line in table(rows).splitlines()[1:]] == ["✗", "✓", "x"]


def test_the_loads_are_summed_up():
    assert bench_queue._weather({"a": [0.5, 2.25], "b": [1.0, 1.5]}).endswith("0.5 to 2.25")
    assert bench_queue._weather({}) == ""


class Scales(Store):
    """A store whose servers weigh more after a look than before."""

    def __init__(self, name, *weights):
        self.name, self._weights = name, iter(weights)

    def room(self):
        return _Room()

    def memory(self):
        return next(self._weights)


class _Room:
    async def __aenter__(self):
        return "nowhere"

    async def __aexit__(self, *_):
        pass


async def weigh(monkeypatch, store, scale):
    async def load(*_, **__):
        pass

    monkeypatch.setattr(memory, "load", load)
    monkeypatch.setattr(memory, "SETTLED", 0)
    return [figure async for figure in memory.memory(store, scale)]


async def test_memory_is_the_growth_by_url_and_what_there_is_in_all(monkeypatch):
    store = Scales("redis", {"redis": 1e6}, {"redis": 1e6 + 100 * DEFAULT.urls})
    each, in_all = await weigh(monkeypatch, store, DEFAULT)
    assert (each.value, each.unit, each.verdict) == (100, "bytes", "met")
    assert (in_all.value, in_all.unit, in_all.bar) == (21, "MB", None)


async def test_two_million_urls_must_stay_under_400_mb(monkeypatch):
    assert BIG.urls == 2_000_000 > QUICK.urls
    store = Scales("redis", {"redis": 0}, {"redis": 401e6})
    each, in_all = await weigh(monkeypatch, store, BIG)
    assert (each.verdict, in_all.verdict) == ("MISSED", "MISSED")


async def test_the_bars_of_redis_are_not_for_the_redis_beside_rabbitmq(monkeypatch):
    store = Scales("rabbitmq", {"redis": 0, "rabbitmq": 0}, {"redis": 1e9, "rabbitmq": 1e9})
    figures = await weigh(monkeypatch, store, BIG)
    assert len(figures) == 4
    assert {figure.verdict for figure in figures} == {""}

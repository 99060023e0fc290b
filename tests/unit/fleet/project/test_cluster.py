"""Cluster settings of a project file."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fleet.project.cluster import ClusterSettings, fill_pattern

FULL = {
    "coordinator": {"scrapers": ["books"], "resume": False, "rejects": "rejects/{run}.jsonl"},
    "workers": {"count": 4, "memory": "128 MB", "steps": "listing", "partitions": ["CA", "NY"]},
    "storage": {"results": "results/{scraper}-{run}.jsonl"},
}


def test_three_tables_describe_it():
    cluster = ClusterSettings.read("shoal.toml", FULL)
    assert cluster.coordinator.scrapers == ("books",) and not cluster.coordinator.resume
    assert (cluster.workers.count, cluster.workers.memory) == (4, 128 << 20)
    assert (cluster.workers.steps, cluster.workers.partitions) == (("listing",), ("CA", "NY"))
    assert fill_pattern(cluster.storage.results, scraper="books", run="r1") == "results/books-r1.jsonl"


def test_without_them_everything_has_its_default():
    assert ClusterSettings.read("shoal.toml", {}) == ClusterSettings()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"coordinator": {"scraper": "x"}},
            "shoal.toml: coordinator.scraper is not known. Did you mean 'scrapers'?",
        ),
        ({"coordinator": 5}, "shoal.toml: coordinator must be a table, got 5"),
        ({"workers": {"count": 0}}, "shoal.toml: workers.count must be a whole number from 1"),
        (
            {"workers": {"count": 2, "per_machine": 3}},
            "shoal.toml: workers.per_machine must be at most workers.count, 2",
        ),
        ({"workers": {"batch": 9}}, "shoal.toml: workers.batch is not known. Did you mean 'batch_size'?"),
        ({"storage": {"result": "x"}}, "shoal.toml: storage.result is not known. Did you mean 'results'?"),
        (
            {"storage": {"results": "{runn}.jsonl"}},
            "shoal.toml: storage.results contains {runn}. Did you mean 'run'?",
        ),
        ({"logs": {"folder": "l", "format": "jsn"}}, "shoal.toml: logs.format"),
        ({"logs": {"level": "loud"}}, "shoal.toml: logs.level"),
        ({"logs": {"file": "l"}}, "shoal.toml: logs.file is not known. Did you mean 'folder'?"),
        ({"workers": {"heartbeat": "0s"}}, "shoal.toml: workers.heartbeat"),
        ({"workers": {"metrics": "somewhere"}}, "shoal.toml: workers.metrics takes HOST:PORT"),
        ({"storage": {"results": "{run"}}, "shoal.toml: storage.results is invalid"),
        ({"storage": {"results": "{run!r}{}"}}, "shoal.toml: storage.results contains {}"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(data, said):
    with pytest.raises(InvalidSetting) as caught:
        ClusterSettings.read("shoal.toml", data)
    assert str(caught.value).startswith(said)

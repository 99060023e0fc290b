"""What a project file says of a cluster."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fleet.cluster import Cluster, place_of

FULL = {
    "coordinator": {"scrapers": ["books"], "resume": False, "rejects": "rejects/{run}.jsonl"},
    "workers": {"count": 4, "memory": "128 MB", "steps": "listing", "partitions": ["CA", "NY"]},
    "storage": {"results": "results/{scraper}-{run}.jsonl"},
}


def test_three_tables_describe_it():
    cluster = Cluster.read("shoal.toml", FULL)
    assert cluster.coordinator.scrapers == ("books",) and not cluster.coordinator.resume
    assert (cluster.workers.count, cluster.workers.memory) == (4, 128 << 20)
    assert (cluster.workers.steps, cluster.workers.partitions) == (("listing",), ("CA", "NY"))
    assert place_of(cluster.storage.results, scraper="books", run="r1") == "results/books-r1.jsonl"


def test_without_them_everything_has_its_default():
    assert Cluster.read("shoal.toml", {}) == Cluster()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"coordinator": {"scraper": "x"}},
            "shoal.toml: coordinator.scraper is not known. Did you mean 'scrapers'?",
        ),
        ({"coordinator": 5}, "shoal.toml: coordinator must be a table, got 5"),
        ({"workers": {"count": 0}}, "shoal.toml: workers.count must be a whole number from 1"),
        ({"workers": {"batch": 9}}, "shoal.toml: workers.batch is not known. Did you mean 'batch_size'?"),
        ({"storage": {"result": "x"}}, "shoal.toml: storage.result is not known. Did you mean 'results'?"),
        (
            {"storage": {"results": "{runn}.jsonl"}},
            "shoal.toml: storage.results holds {runn}. Did you mean 'run'?",
        ),
        ({"storage": {"results": "{run"}}, "shoal.toml: storage.results is broken"),
        ({"storage": {"results": "{run!r}{}"}}, "shoal.toml: storage.results holds {}"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(data, said):
    with pytest.raises(InvalidSetting) as caught:
        Cluster.read("shoal.toml", data)
    assert str(caught.value).startswith(said)

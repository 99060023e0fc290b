"""The keywords of a run from a program."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.script.options import read_queue


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (None, None),
        ("quotes.db", "sqlite:///quotes.db"),
        ("redis://a", "redis://a"),
    ],
)
def test_a_queue_is_an_address_or_a_file(given, address):
    assert read_queue(given) == address


@pytest.mark.parametrize("given", [5, ""])
def test_what_is_no_queue_is_refused(given):
    with pytest.raises(InvalidSetting, match="must be a file"):
        read_queue(given)


def test_a_list_is_refused_and_a_cluster_named():
    with pytest.raises(InvalidSetting, match="use a Redis Cluster"):
        read_queue(["redis://a", "b.db"])

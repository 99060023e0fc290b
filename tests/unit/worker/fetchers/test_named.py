"""Fetchers of plugins that cannot be opened."""

import pytest

from shoal.core.errors import PluginFailed
from shoal.worker.fetchers.named import FETCHERS, with_named
from tests.packages import install

MODULE = """
import os

def no_fetcher(options):
    return 7

def raises(options):
    return os.environ["NO_SUCH_GATEWAY"]
"""


class Options:
    """What a fetcher is opened with."""

    http = limits = egress = None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_fetcher", "TypeError: it returned a int, which has no method fetch"),
        ("raises", r"KeyError: 'NO_SUCH_GATEWAY' \("),
    ],
)
def test_a_fetcher_that_cannot_be_opened_is_named_with_its_package(tmp_path, monkeypatch, name, reason):
    names = {"no_fetcher": "gateways:no_fetcher", "raises": "gateways:raises"}
    monkeypatch.syspath_prepend(
        str(install(tmp_path, "gateways", {"shoal.fetchers": names}, gateways=MODULE))
    )
    assert name in FETCHERS.plugin_names()
    with pytest.raises(
        PluginFailed, match=f"The fetcher '{name}' of the package gateways 1.0 cannot be used: {reason}"
    ):
        with_named(Options, [name])

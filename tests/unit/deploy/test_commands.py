"""Every command in the files of `deploy/` is one that Shoal has, with the options that it takes."""

import os

import pytest

from tests.unit.deploy.files import commands
from tests.unit.docs.commands import parse

FOUND = list(commands())


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Nothing of this machine's environment stands in for an option."""
    for name in list(os.environ):
        if name.startswith("SHOAL_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: f"{found.where}: {' '.join(found.words)}")
def test_the_parser_takes_it(found):
    parse(found.words)


def test_those_who_run_something_are_all_looked_at():
    run = {found.where: found.words for found in FOUND if ": " in found.where}
    assert run["compose: worker"] == run["kubernetes: shoal-worker"] == run["ecs: worker"]
    assert {"compose: migrate", "compose: metrics", "compose: web", "compose: coordinator"} <= set(run)
    assert {"kubernetes: shoal-migrate", "kubernetes: shoal-metrics", "kubernetes: shoal-coordinator"} <= set(
        run
    )
    assert {"deploy.md", "alerts.yml"} <= {found.where for found in FOUND}

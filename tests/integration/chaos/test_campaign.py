"""A short campaign on SQLite: it holds; and without a fence its judge finds what zombies have stored."""

from pathlib import Path

import pytest

from tools.chaos.campaign import Campaign, Plan
from tools.chaos.history import Manners
from tools.chaos.judge import judge
from tools.chaos.report import result
from tools.chaos.schedule import kinds_of
from tools.chaos.site import Site

MANNERS = Manners(delay=0.2, per_host=3, lease=2.0, retry_after=3.0)
UNFENCED = Path(__file__).with_name("unfenced")
# What a machine that is busy with other tests does to the pace of hosts says nothing of Shoal.
UNJUDGED = {"hasty"}


def plan(pages, kinds, **changes):
    asked = {"seed": 7, "span": 6.0, "every": 1.0, "manners": MANNERS}
    return Plan(queue="sqlite", site=Site(pages, hosts=12), kinds=kinds, **(asked | changes))


def campaign(tmp_path, plan):
    return Campaign(plan, tmp_path).run()


@pytest.mark.alone
def test_a_crawl_whose_processes_are_killed_and_stopped_keeps_every_promise(tmp_path):
    history = campaign(tmp_path, plan(200, kinds_of("sqlite")))
    assert len(history.strikes) >= 3
    broken = {rule: found for rule, found in judge(history).items() if rule not in UNJUDGED}
    assert broken == {}, result("sqlite", 7, history)
    assert history.visits and history.letters


@pytest.mark.long
def test_without_a_fence_the_judge_finds_what_zombies_have_stored_twice(tmp_path):
    # With steps so long, whoever is stopped has pages in hand; and its keeper does not take it for hung.
    long_steps = {"CHAOS_HANDLING": "0.8", "CHAOS_STEP_LIMIT": "1m"}
    environment = {"PYTHONPATH": str(UNFENCED), **long_steps}
    history = campaign(tmp_path, plan(100, ["freeze"], every=2.0, environment=environment))
    assert history.stale > 0
    assert "doubled" in judge(history)

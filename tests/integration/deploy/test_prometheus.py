"""Alerts and dashboard, read by Prometheus' own tool and held against what a real run serves."""

import asyncio
import os
import re
import signal
from collections import defaultdict
from contextlib import suppress

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from shoal.demo.site import SiteProcess
from tests.integration.engine.commands.test_inspecting import fetched
from tests.integration.engine.fleet.test_start_watched import metrics_url
from tests.integration.engine.shell import start, typed
from tests.unit.deploy.files import DEPLOY, documents, queries, rules

FOLDER = DEPLOY / "prometheus"
CASES = FOLDER / "alerts.test.yml"
PROJECT = """
queue = "sqlite:///queue.db"
[workers]
count = 1
metrics = "127.0.0.1:0"
[scrapers.shop]
module = "shoal.demo.scraper:shop"
[scrapers.shop.seeds]
url = {seeds}
"""
# Prometheus gives these to every sample.
GIVEN = {"job", "instance"}


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_the_configuration_is_right(promtool, name):
    told = promtool("check", "config", FOLDER / name)
    assert told.returncode == 0, told.stderr
    assert "1 rule files found" in told.stdout


@pytest.mark.long
def test_alerts_fire_when_they_should_and_not_otherwise(promtool):
    told = promtool("test", "rules", CASES)
    assert told.returncode == 0, told.stdout + told.stderr


def test_every_alert_is_seen_to_fire_and_to_stay_silent():
    (cases,) = documents(CASES)
    tried = [one for case in cases["tests"] for one in case["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {one["alertname"] for one in tried if one.get("exp_alerts")} == names
    assert {one["alertname"] for one in tried if not one.get("exp_alerts")} == names


def test_every_question_is_one_that_prometheus_understands(promtool, tmp_path):
    recorded = [{"record": f"asked:{n}", "expr": expr} for n, expr in enumerate(queries().values())]
    assert len(recorded) > 30
    place = tmp_path / "asked.yml"
    place.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": recorded}]}))
    told = promtool("check", "rules", place)
    assert told.returncode == 0, told.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """What a worker and `shoal metrics` serve after a run through the bundled shops."""
    folder = tmp_path_factory.mktemp("project")
    with SiteProcess(products=12) as site:
        seeds = [*site.seeds, f"{site.seeds[0].rstrip('/')}/no-such-page"]  # an error, since it is a seed
        (folder / "shoal.toml").write_text(PROJECT.format(seeds=seeds))
        return asyncio.run(run_through(folder))


async def run_through(folder):
    worker = await start("start", "--role", "worker", folder=folder)
    try:
        url = await metrics_url(worker)
        await typed("start", "--role", "coordinator", folder=folder)
        queue = await typed("metrics", folder=folder)
        return {"shoal-worker": await fetched(url), "shoal-queue": queue.out}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        await worker.communicate()


def known(text):
    """Return the labels of each metric, None where there was nothing to count, and the values of `state`."""
    labels, states = dict.fromkeys(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)), defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] = set(sample.labels)
            states[sample.name].add(sample.labels.get("state"))
    return labels, states


def selectors(expr):
    """Return the metrics that a question is about: each with its job, its labels and the states it names."""
    for name, inside in re.findall(r"\b(shoal_\w+)\{([^}]*)\}", expr):
        pairs = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', inside)
        given = dict(pairs)
        yield name, given["job"], set(given) - GIVEN, set(given.get("state", "").split("|")) - {""}


@pytest.mark.parametrize("where", queries())
def test_only_metrics_that_are_served_are_asked_for(served, where):
    expr, grouped = queries()[where], set()
    found = list(selectors(expr))
    assert len(found) == len(re.findall(r"\bshoal_\w+", re.sub(r'"[^"]*"', "", expr)))
    for name, job, labels, states in found:
        has, values = known(served[job])
        assert name in has, f"{job} does not serve {name}"
        if has[name] is not None:
            assert labels <= has[name]
            assert states <= values[name]
            grouped |= has[name]
    words = {
        word for inside in re.findall(r"\bby \(([^)]*)\)", expr) for word in re.split(r"\W+", inside) if word
    }
    assert words <= grouped | GIVEN | {"class", "reason", "proxy"}

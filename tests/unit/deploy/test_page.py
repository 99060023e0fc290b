"""What docs/how-to/deploy.md promises is what the files say."""

import re
import subprocess

import pytest

from shoal.cli.signals import FINISH_TIMEOUT_SECONDS
from tests.unit.deploy.files import DEPLOY, PAGE, ROOT, compose, manifest, pods, rules

TEXT = PAGE.read_text()
MINUTES = {"m": 1, "h": 60}


def test_every_file_it_names_is_there():
    for place in re.findall(r"\b(deploy/[\w./-]+[\w/])", TEXT):
        assert (ROOT / place).exists() or place == "deploy/compose/.env", place
    for place in re.findall(r"^\| ((?:`[a-z]+/`(?:, )?)+) \|", TEXT, re.MULTILINE):
        assert all((DEPLOY / name).is_dir() for name in re.findall(r"[a-z]+", place))
    assert all((PAGE.parent / name).exists() for name in re.findall(r"\]\(([^)#]+)\)", TEXT))


def test_every_alert_is_listed_with_its_time():
    listed = dict(re.findall(r"^\| `(Shoal\w+)` \| (.*) \|$", TEXT, re.MULTILINE))
    assert list(listed) == [rule["alert"] for rule in rules()]
    for rule in rules():
        for number, unit in re.findall(
            r"(?:for|been silent for) (\d+) (minute|hour)s", listed[rule["alert"]]
        ):
            told = int(number) * MINUTES[unit[0]]
            window = 15 if rule["alert"] == "ShoalWorkersStuck" else 0
            assert told == window + int(rule["for"][:-1]) * MINUTES[rule["for"][-1]]


def test_the_numbers_are_those_of_the_files():
    assert f"has {FINISH_TIMEOUT_SECONDS:g} seconds to finish" in TEXT
    assert f"Pods are given {pods()['shoal-worker']['spec']['terminationGracePeriodSeconds']} seconds" in TEXT
    scaler = manifest("ScaledObject", "shoal-worker")["spec"]
    wanted = int(scaler["triggers"][0]["metadata"]["targetQueryValue"])
    assert f"a worker for each {wanted:,} tasks" in TEXT
    assert f"from none to {scaler['maxReplicaCount']}, and none after five minutes" in TEXT
    assert scaler["cooldownPeriod"] == 5 * 60
    pooler = compose()["services"]["pgbouncer"]["environment"]
    assert pooler == {
        "PGBOUNCER_POOL_SIZE": "${PGBOUNCER_POOL_SIZE:-20}",
        "PGBOUNCER_CLIENTS": "${PGBOUNCER_CLIENTS:-2000}",
    }
    assert "20 connections serve up to 2,000 clients" in TEXT
    for variable in pooler:
        assert f"${{{variable}:-" in (DEPLOY / "docker" / "pgbouncer.sh").read_text()


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("postgresql://shoal:a1@pgbouncer:6432/shoal", "postgresql://shoal:a1@127.0.0.1:6432/shoal"),
        ("redis://:b2@redis:6379/0", "redis://:b2@127.0.0.1:6379/0"),
        (
            "amqp://shoal:c3@rabbitmq:5672/?state=redis://:b2@redis:6379/0",
            "amqp://shoal:c3@127.0.0.1:5672/?state=redis://:b2@127.0.0.1:6379/0",
        ),
    ],
)
def test_the_address_from_outside_is_that_of_the_published_port(inside, outside):
    (rule,) = re.findall(r"sed '([^']+)' secrets/queue_url", TEXT)
    told = subprocess.run(["sed", rule], input=inside, capture_output=True, text=True, check=True)
    assert told.stdout == outside
    published = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert any(f":-{outside.split('127.0.0.1:')[1].split('/')[0]}}}:" in port for port in published)

"""The dashboard and the alerts as files; tests/integration/deploy asks Prometheus' own tool about them."""

import json
from itertools import combinations

import pytest

from tests.unit.deploy.files import DASHBOARD, DEPLOY, compose, documents, panels, rules

BOARD = json.loads(DASHBOARD.read_text())
JOBS = {"shoal-worker", "shoal-queue"}


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert (
        len({panel["id"] for panel in panels()})
        == len({panel["title"] for panel in panels()})
        == len(panels())
    )
    for one, other in combinations([panel["gridPos"] for panel in panels()], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
        assert one["x"] + one["w"] <= 24


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_the_jobs_are_those_that_alerts_and_dashboard_go_by(name):
    (plan,) = documents(DEPLOY / "prometheus" / name)
    assert {job["job_name"] for job in plan["scrape_configs"]} == JOBS


def test_prometheus_asks_where_compose_serves():
    (plan,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
    workers, queue = plan["scrape_configs"]
    services = compose()["services"]
    (found,) = workers["dns_sd_configs"]
    assert services[found["names"][0]]["environment"]["SHOAL_METRICS"] == f"0.0.0.0:{found['port']}"
    name, _, port = queue["static_configs"][0]["targets"][0].partition(":")
    assert services[name]["command"][-1] == f"0.0.0.0:{port}"


def test_grafana_finds_prometheus_and_the_dashboard():
    (sources,) = documents(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml")
    (source,) = sources["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["uid"] == "prometheus"
    (boards,) = documents(DEPLOY / "grafana" / "provisioning" / "dashboards" / "shoal.yml")
    path = boards["providers"][0]["options"]["path"]
    assert f"../grafana/dashboards:{path}:ro" in compose()["services"]["grafana"]["volumes"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_grave_it_is_and_what_to_do(rule):
    assert rule["alert"].startswith("Shoal")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    assert rule["for"]

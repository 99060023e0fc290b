"""The dashboard and the alerts as files; tests/integration/deploy asks Prometheus' own tool about them."""

import pytest

from tests.unit.deploy.files import DEPLOY, compose, documents, rules

JOBS = {"shoal-worker", "shoal-queue"}


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

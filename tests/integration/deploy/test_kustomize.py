"""The manifests as `kubectl apply -k` puts them together."""

import shutil
import subprocess

import pytest
import yaml

from tests.integration.deploy.kustomize import render
from tests.unit.deploy.files import DEPLOY

KUBECTL = shutil.which("kubectl")


def by_kind_and_name(objects):
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def built(name):
    """Return the objects of a kustomization, by kind and name."""
    return by_kind_and_name(render(DEPLOY / "kubernetes" / name))


@pytest.mark.parametrize("name", ["base", "keda", "keda-metrics", "pgbouncer"])
def test_kubectl_renders_the_same_where_it_is_installed(name):
    if KUBECTL is None:
        pytest.skip("kubectl is not installed; the other tests render the manifests without it")
    told = subprocess.run(
        [KUBECTL, "kustomize", DEPLOY / "kubernetes" / name], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert by_kind_and_name(yaml.safe_load_all(told.stdout)) == built(name)


def test_everything_is_in_one_namespace_and_has_the_projects_image():
    found = built("base")
    assert {one["metadata"].get("namespace") for key, one in found.items() if key[0] != "Namespace"} == {
        "shoal"
    }
    for kind, name in (
        ("Deployment", "shoal-worker"),
        ("Deployment", "shoal-metrics"),
        ("Job", "shoal-migrate"),
    ):
        (container,) = found[kind, name]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "registry.example.com/quotes:1"
    assert not [key for key in found if key[0] == "Secret"]


def test_the_network_policy_is_for_every_pod():
    found = built("base")
    wanted = found["NetworkPolicy", "shoal"]["spec"]["podSelector"]["matchLabels"]
    for one in found.values():
        if "template" in one.get("spec", {}):
            assert wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()


def test_the_pooler_has_its_image():
    found = built("pgbouncer")
    (container,) = found["Deployment", "shoal-pgbouncer"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/shoal-pgbouncer:1"


def test_with_keda_nobody_else_says_how_many_workers_there_are():
    base, keda = built("base"), built("keda")
    assert base["Deployment", "shoal-worker"]["spec"]["replicas"] == 2
    assert "replicas" not in keda["Deployment", "shoal-worker"]["spec"]
    assert set(keda) - set(base) == {
        ("ScaledObject", "shoal-worker"),
        ("TriggerAuthentication", "shoal-queue"),
    }


def test_keda_reads_the_metrics_of_any_queue_from_their_service():
    base, keda = built("base"), built("keda-metrics")
    assert "replicas" not in keda["Deployment", "shoal-worker"]["spec"]
    (scaled,) = set(keda) - set(base)
    (trigger,) = keda[scaled]["spec"]["triggers"]
    assert keda[scaled]["spec"]["scaleTargetRef"] == {"name": "shoal-worker"}
    (port,) = base["Service", "shoal-metrics"]["spec"]["ports"]
    assert trigger["metadata"]["url"] == f"http://shoal-metrics.shoal.svc:{port['port']}/metrics"

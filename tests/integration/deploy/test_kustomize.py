"""The manifests as kubectl puts them together, where it is there."""

import shutil
import subprocess

import pytest
import yaml

from tests.unit.deploy.files import DEPLOY

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine")


def built(name):
    """Return the objects of a kustomization, by kind and name."""
    told = subprocess.run(
        [KUBECTL, "kustomize", DEPLOY / "kubernetes" / name], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    found = list(yaml.safe_load_all(told.stdout))
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


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

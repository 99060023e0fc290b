"""The manifests: as the API wants them, and with no more rights than they need."""

import json
import re

import kubernetes_validate
import pytest

from shoal.cli.signals import FINISH_TIMEOUT_SECONDS, RELEASE_TIMEOUT_SECONDS
from tests.unit.deploy.files import DEPLOY, documents, manifest, manifests, pods

VERSIONS = ("1.30", "1.33")
CUSTOM = ("ScaledObject", "TriggerAuthentication")
FOLDER = DEPLOY / "kubernetes"
(TASK,) = json.loads((DEPLOY / "ecs" / "task-definition.json").read_text())["containerDefinitions"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_as_the_api_wants_it(version):
    for where, found in manifests():
        if found["kind"] not in CUSTOM:
            named = found | {"metadata": {"name": where} | found["metadata"]}  # some are given a name later
            kubernetes_validate.validate(named, version, strict=True)


def test_each_base_names_what_lies_beside_it():
    for folder in ("base", "keda", "keda-metrics", "pgbouncer"):
        (plan,) = documents(FOLDER / folder / "kustomization.yaml")
        for name in plan["resources"]:
            assert (FOLDER / folder / name).exists(), name
    assert "secret.example.yaml" not in documents(FOLDER / "base" / "kustomization.yaml")[0]["resources"]


@pytest.mark.parametrize("name", pods())
def test_no_pod_has_more_rights_than_it_needs(name):
    pod = pods()[name]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        walls = container["securityContext"]
        assert walls["readOnlyRootFilesystem"] and not walls["allowPrivilegeEscalation"]
        assert walls["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize("name", sorted(set(pods()) - {"shoal-pgbouncer"}))
def test_the_queues_address_comes_out_of_the_secret(name):
    (container,) = pods()[name]["spec"]["containers"]
    secret = manifest("Secret", "shoal-queue")
    references = {
        one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one
    }
    assert "SHOAL_QUEUE" in references
    for variable, reference in references.items():
        assert reference == {"name": secret["metadata"]["name"], "key": variable}
        assert variable in secret["stringData"]


def test_the_pooler_finds_its_password_where_its_script_looks():
    secret, pod = manifest("Secret", "shoal-pgbouncer"), pods()["shoal-pgbouncer"]["spec"]
    (mounted,) = [one for one in pod["volumes"] if "secret" in one]
    assert mounted["secret"]["secretName"] == secret["metadata"]["name"]
    (where,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == mounted["name"]]
    (key,) = secret["stringData"]
    script = (DEPLOY / "docker" / "pgbouncer.sh").read_text()
    assert f"{where['mountPath']}/{key}}}" in script
    assert secret["stringData"] == {key: "PASSWORD"}


def test_a_worker_has_time_to_finish_and_to_hand_back():
    grace = pods()["shoal-worker"]["spec"]["terminationGracePeriodSeconds"]
    assert grace >= FINISH_TIMEOUT_SECONDS + RELEASE_TIMEOUT_SECONDS + 10
    assert TASK["stopTimeout"] >= FINISH_TIMEOUT_SECONDS + RELEASE_TIMEOUT_SECONDS + 10
    assert TASK["stopTimeout"] <= 120  # the most that ECS takes


def test_probes_ask_what_is_served():
    (worker,) = pods()["shoal-worker"]["spec"]["containers"]
    (port,) = worker["ports"]
    (served,) = [one["value"] for one in worker["env"] if one["name"] == "SHOAL_METRICS"]
    assert served == f"0.0.0.0:{port['containerPort']}"
    for probe in ("startupProbe", "livenessProbe"):
        assert worker[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    (metrics,) = pods()["shoal-metrics"]["spec"]["containers"]
    assert metrics["args"][-1] == f"0.0.0.0:{metrics['ports'][0]['containerPort']}"
    (web,) = pods()["shoal-web"]["spec"]["containers"]
    assert web["args"][-1] == str(web["ports"][0]["containerPort"])
    # It fails while the queue is away, and starting it again would not help.
    assert "httpGet" not in metrics["livenessProbe"]


def test_services_budgets_and_scalers_find_their_pods():
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}
    for name in ("shoal-worker", "shoal-metrics", "shoal-web", "shoal-pgbouncer"):
        assert manifest("Service", name)["spec"]["selector"].items() <= labels[name].items()
    budget = manifest("PodDisruptionBudget", "shoal-worker")["spec"]
    assert budget["selector"]["matchLabels"].items() <= labels["shoal-worker"].items()
    assert manifest("ScaledObject", "shoal-worker")["spec"]["scaleTargetRef"]["name"] == "shoal-worker"
    ports = [one["port"] for one in manifest("NetworkPolicy", "shoal")["spec"]["ingress"][0]["ports"]]
    assert ports == [9464, 9465, 8700]


def test_the_fleet_is_scaled_within_bounds_and_to_nothing():
    scaler = manifest("ScaledObject", "shoal-worker")["spec"]
    assert scaler["minReplicaCount"] == 0 < scaler["maxReplicaCount"]
    assert scaler["cooldownPeriod"] >= 60
    (trigger,) = scaler["triggers"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert trigger["metadata"]["targetQueryValue"] == "1000"
    assert trigger["metadata"]["activationTargetQueryValue"] == "0"
    grant = manifest("TriggerAuthentication", trigger["authenticationRef"]["name"])
    (reference,) = grant["spec"]["secretTargetRef"]
    assert reference["key"] in manifest("Secret", reference["name"])["stringData"]


def test_the_ecs_task_has_its_secret_from_a_store_and_writes_nowhere_but_where_it_must():
    assert [one["name"] for one in TASK["secrets"]] == ["SHOAL_QUEUE"]
    assert TASK["secrets"][0]["valueFrom"].startswith("arn:aws:secretsmanager:")
    assert not re.search(r"SHOAL_QUEUE|PASSWORD", json.dumps(TASK["environment"]))
    assert TASK["readonlyRootFilesystem"] and TASK["user"] == "10001:10001"
    assert [mount["containerPath"] for mount in TASK["mountPoints"]] == ["/tmp"]
    assert TASK["logConfiguration"]["options"]["awslogs-create-group"] == "true"


def test_workers_say_on_stdout_what_they_do():
    pod = {
        entry["name"]: entry.get("value") for entry in pods()["shoal-worker"]["spec"]["containers"][0]["env"]
    }
    task = {entry["name"]: entry["value"] for entry in TASK["environment"]}
    for environment in (pod, task):
        assert (environment["SHOAL_LOG_DIR"], environment["SHOAL_LOG_FORMAT"]) == ("-", "json")

"""The files that `shoal deploy` writes: as the specifications want them, and without a secret."""

import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from shoal.cli.commands.project.new import write_project
from shoal.cli.exits import Exit
from shoal.cli.signals import FINISH_TIMEOUT_SECONDS, RELEASE_TIMEOUT_SECONDS
from tests.unit.cli.typed import typed
from tests.unit.deploy.files import manifest
from tests.unit.docs.commands import parse

QUEUES = {
    "postgres": "postgresql://me:hidden@db/shoal",
    "redis": "redis://:hidden@cache/0",
    "rabbitmq": "amqp://me:hidden@mq/?state=redis://:hidden@cache/0",
}
WORKERS = ("worker-profile.yaml", "worker-enhance.yaml")
GRACE = FINISH_TIMEOUT_SECONDS + RELEASE_TIMEOUT_SECONDS + 10
SCHEMA = json.loads(
    (files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text()
)
STAGES = """
from shoal import Scraper
scraper = Scraper("people", tokens={"from": "env", "hosts": "http://127.0.0.1:8800"})
@scraper.step
def search(page): pass
@scraper.step
def profile(page): pass
@scraper.step
def enhance(page): pass
"""
SERVICES = """
[storage]
results = "results/{scraper}-{run}.jsonl"
[deploy]
secrets = ["SHOAL_TOKENS"]
[deploy.services.profile]
steps = ["search", "profile"]
replicas = 2
[deploy.services.enhance]
steps = ["enhance"]
replicas = 4
[scrapers.people]
module = "people.py"
"""


def write_stages(folder):
    """Write a project of three stages, two services and a secret."""
    write_project("api", folder, "people")
    (folder / "people.py").write_text(STAGES)
    (folder / "shoal.toml").write_text(SERVICES)


@pytest.fixture
def project(tmp_path, monkeypatch):
    write_stages(tmp_path / "people")
    monkeypatch.chdir(tmp_path / "people")
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    return tmp_path / "people"


def written(project, kind, queue=None):
    """Write the files, and return their texts."""
    if queue:
        toml = project / "shoal.toml"
        toml.write_text(f'queue = "{QUEUES[queue]}"\n{toml.read_text()}')
    told = typed("deploy", kind)
    assert told.exit_code == 0, told.stderr
    paths = [project / line for line in told.stdout.splitlines()]
    assert {path.parent for path in paths} == {project / "deploy" / kind}
    return {path.name: path.read_text() for path in paths}


@pytest.mark.parametrize("queue", [None, *QUEUES])
def test_the_compose_file_is_as_the_specification_wants_it(project, queue):
    found = yaml.safe_load(written(project, "compose", queue)["compose.yaml"])
    Draft7Validator(SCHEMA).validate(found)
    services = found["services"]
    servers = {"redis": {"redis"}, "rabbitmq": {"redis", "rabbitmq"}}.get(queue, {"postgres", "pgbouncer"})
    assert set(services) == {"migrate", "profile", "enhance", "coordinator", "metrics", "web"} | servers
    for name, service in services.items():
        assert set(service.get("networks", [])) <= set(found["networks"])
        assert set(service.get("depends_on", {})) <= set(services)
        used = [one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])]
        assert set(used) <= set(found["secrets"]), name
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in found["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        # Else the entrypoint would end with an error.
        assert set(service.get("environment", {}).get("SHOAL_SECRETS", "").split()) <= set(used)


def test_each_stage_is_a_service_that_can_be_scaled_and_logs_lines_of_json(project):
    services = yaml.safe_load(written(project, "compose")["compose.yaml"])["services"]
    for name, steps, replicas in (("profile", "search,profile", 2), ("enhance", "enhance", 4)):
        service = services[name]
        assert service["command"][-2:] == ["--steps", steps] and service["scale"] == replicas
        assert not {"container_name", "ports", "hostname", "profiles"} & set(service)
        assert service["environment"]["SHOAL_LOG_DIR"] == "-"
        assert "json" in service["environment"]["SHOAL_LOG_FORMAT"]
        assert int(service["stop_grace_period"].removesuffix("s")) >= GRACE
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        parse(service["command"])


@pytest.mark.parametrize("queue", QUEUES)
def test_preparing_makes_every_secret_that_compose_mounts(project, queue):
    texts = written(project, "compose", queue)
    folder = project / "deploy" / "compose"
    for _ in range(2):  # what is there is kept
        done = subprocess.run(["sh", "prepare.sh"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made = {file.name: file.read_text() for file in (folder / "secrets").iterdir()}
    named = yaml.safe_load(texts["compose.yaml"])["secrets"]
    assert {one["file"].removeprefix("secrets/") for one in named.values()} <= set(made)
    assert made["SHOAL_TOKENS"] == "practice-1,practice-2"  # of .env
    assert re.match(r"(postgresql|redis|amqp)://", made["queue_url"]) and "hidden" not in made["queue_url"]
    assert (folder / "secrets").stat().st_mode & 0o77 == 0
    assert "secrets/" in texts[".gitignore"]


def test_preparing_says_which_secret_is_missing(project):
    written(project, "compose")
    (project / ".env").unlink()
    folder = project / "deploy" / "compose"
    done = subprocess.run(["sh", "prepare.sh"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no value for: SHOAL_TOKENS" in done.stderr


@pytest.mark.parametrize("version", ["1.30", "1.33"])
@pytest.mark.parametrize("has_services", [True, False])
def test_every_manifest_is_as_the_api_wants_it(tmp_path, monkeypatch, version, has_services):
    if has_services:
        write_stages(tmp_path / "people")
    else:
        write_project("browser", tmp_path / "people", "people")
    monkeypatch.chdir(tmp_path / "people")
    found = written(tmp_path / "people", "kubernetes")
    assert "secret.yaml" in found.pop(".gitignore")
    plan = yaml.safe_load(found.pop("kustomization.yaml"))
    assert set(plan["resources"]) == set(found) - {"coordinator.yaml", "secret.example.yaml"}
    for name, text in found.items():
        for one in yaml.safe_load_all(text):
            kubernetes_validate.validate(
                one | {"metadata": {"name": name} | one["metadata"]}, version, strict=True
            )


def test_a_project_with_schedules_has_a_coordinator_that_stays(project):
    toml = project / "shoal.toml"
    toml.write_text(toml.read_text() + '[schedules.nightly]\nscraper = "people"\ncron = "0 2 * * *"\n')
    notify = '[notify.team]\nkind = "slack"\nurl = "env:SLACK_URL"\n'
    toml.write_text(toml.read_text() + notify)
    found = written(project, "kubernetes")
    assert "SLACK_URL" in yaml.safe_load(found["secret.example.yaml"])["stringData"]
    deployment = yaml.safe_load(found["schedules.yaml"])
    kubernetes_validate.validate(deployment, "1.33", strict=True)
    assert "schedules.yaml" in yaml.safe_load(found["kustomization.yaml"])["resources"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["shoal", "schedule", "run", "--workers", "0"]
    assert {one["name"] for one in container["env"]} == {"SHOAL_QUEUE", "SHOAL_TOKENS", "SLACK_URL"}
    service = yaml.safe_load(written(project, "compose")["compose.yaml"])["services"]["schedules"]
    assert (service["command"], service["profiles"]) == (container["args"], [])
    task = json.loads(written(project, "ecs")["schedules.json"])
    assert task["containerDefinitions"][0]["command"] == container["args"]


def scaled(project):
    """Let KEDA scale one service of the project, with several processes in each container."""
    toml = project / "shoal.toml"
    head, mark, tail = toml.read_text().partition("[deploy.services.enhance]\n")
    bounds = "min_replicas = 1\nmax_replicas = 30\ntasks_per_worker = 200\nworkers = 4\n"
    toml.write_text(f"{head}{mark}{bounds}{tail}")


@pytest.mark.parametrize("queue", QUEUES)
def test_a_service_with_a_maximum_is_scaled_by_the_metric_of_the_queue(project, queue):
    scaled(project)
    texts = written(project, "kubernetes", queue)
    objects = {name: list(yaml.safe_load_all(text)) for name, text in texts.items() if name.endswith("yaml")}
    (plan,) = objects["kustomization.yaml"]
    assert {"metrics.yaml", "scale-enhance.yaml"} <= set(plan["resources"])
    assert "scale-profile.yaml" not in texts
    (scaler,) = objects["scale-enhance.yaml"]
    assert (scaler["spec"]["minReplicaCount"], scaler["spec"]["maxReplicaCount"]) == (1, 30)
    worker, _ = objects["worker-enhance.yaml"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert "replicas" not in worker["spec"]  # KEDA's to say
    assert objects["worker-profile.yaml"][0]["spec"]["replicas"] == 2
    pod, service = objects["metrics.yaml"]
    for one in (pod, service, worker):
        kubernetes_validate.validate(one, "1.33", strict=True)
    host = f"{service['metadata']['name']}.{plan['namespace']}.svc"
    address = f"http://{host}:{service['spec']['ports'][0]['port']}"
    # The same metric as deploy/kubernetes/keda-metrics, which the tests ask a real queue for.
    (wanted,) = manifest("ScaledObject", "shoal-worker-by-metrics")["spec"]["triggers"]
    own = {"url": f"{address}/metrics", "targetValue": "800"}
    assert scaler["spec"]["triggers"] == [{**wanted, "metadata": wanted["metadata"] | own}]
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    parse(container["args"])
    ports = [one["port"] for one in objects["workers.yaml"][1]["spec"]["ingress"][0]["ports"]]
    assert container["ports"][0]["containerPort"] in ports


def test_images_for_arm_run_on_machines_with_arm(project):
    toml = project / "shoal.toml"
    toml.write_text(toml.read_text().replace("[deploy]\n", '[deploy]\narchitecture = "arm64"\n'))
    scaled(project)
    for task in map(json.loads, written(project, "ecs").values()):
        assert task["runtimePlatform"]["cpuArchitecture"] == "ARM64"
    compose = yaml.safe_load(written(project, "compose")["compose.yaml"])
    Draft7Validator(SCHEMA).validate(compose)
    assert {compose["services"][name]["platform"] for name in ("profile", "migrate", "web")} == {
        "linux/arm64"
    }
    texts = written(project, "kubernetes")
    assert "docker build --platform linux/arm64 -t" in texts["kustomization.yaml"]
    for name in ("coordinator", "migrate", "web", "metrics", "worker-profile", "worker-enhance"):
        pod = next(yaml.safe_load_all(texts[f"{name}.yaml"]))["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"kubernetes.io/arch": "arm64"}


def test_a_pod_has_its_secrets_by_reference_and_no_more_rights_than_it_needs(project):
    texts = written(project, "kubernetes")
    secret = yaml.safe_load(texts["secret.example.yaml"])
    for name in [*(f"{one}.yaml" for one in ("coordinator", "migrate", "web")), *WORKERS]:
        first = next(yaml.safe_load_all(texts[name]))
        pod = first["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        parse(container["args"])
        assert pod["securityContext"]["runAsUser"] == 10001 and pod["automountServiceAccountToken"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"]
        references = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one]
        assert {one["key"] for one in references} <= set(secret["stringData"])
        assert {one["name"] for one in references} == {secret["metadata"]["name"]}
        if name in WORKERS:
            values = {one["name"]: one.get("value") for one in container["env"]}
            assert (values["SHOAL_LOG_DIR"], values["SHOAL_LOG_FORMAT"]) == ("-", "json")
            assert pod["terminationGracePeriodSeconds"] >= GRACE
        if name != "migrate.yaml":  # the control room starts workers too
            assert {"SHOAL_QUEUE", "SHOAL_TOKENS"} <= {one["name"] for one in container["env"]}


def test_no_outcome_of_a_run_makes_kubernetes_begin_another_one(project):
    shipped = Path(__file__).parents[3] / "deploy/kubernetes/coordinator.yaml"
    outcomes = set(Exit) - {Exit.OK, Exit.BUSY, Exit.UNAVAILABLE, Exit.INTERRUPTED}
    for text in (written(project, "kubernetes")["coordinator.yaml"], shipped.read_text()):
        rules = next(yaml.safe_load_all(text))["spec"]["podFailurePolicy"]["rules"]
        (ended,) = [rule["onExitCodes"]["values"] for rule in rules if rule["action"] == "FailJob"]
        assert ended == sorted(outcomes)


def test_the_control_room_of_compose_has_the_secrets_of_the_scrapers(project):
    web = yaml.safe_load(written(project, "compose")["compose.yaml"])["services"]["web"]
    assert {"queue_url", "web_token", "SHOAL_TOKENS"} == set(web["secrets"])
    assert web["environment"]["SHOAL_SECRETS"] == "SHOAL_TOKENS"


def test_ecs_has_a_task_for_each_service_and_the_coordinator(project):
    found = {name: json.loads(text) for name, text in written(project, "ecs").items()}
    assert set(found) == {"profile.json", "enhance.json", "coordinator.json"}
    for name, task in found.items():
        (container,) = task["containerDefinitions"]
        assert task["family"] == f"people-{name.removesuffix('.json')}"
        parse(container["command"])
        assert [one["name"] for one in container["secrets"]] == ["SHOAL_QUEUE", "SHOAL_TOKENS"]
        assert all(one["valueFrom"].startswith("arn:aws:secretsmanager:") for one in container["secrets"])
        values = {one["name"]: one["value"] for one in container["environment"]}
        assert (values["SHOAL_LOG_DIR"], values["SHOAL_LOG_FORMAT"]) == ("-", "json")
        assert GRACE <= container["stopTimeout"] <= 120
        assert task["runtimePlatform"]["cpuArchitecture"] == "X86_64"
        options = container["logConfiguration"]["options"]
        assert (options["awslogs-group"], options["awslogs-create-group"]) == ("/people", "true")


@pytest.mark.parametrize("kind", ["compose", "kubernetes", "ecs"])
@pytest.mark.parametrize("queue", QUEUES)
def test_no_secret_is_in_a_file(project, kind, queue):
    for name, text in written(project, kind, queue).items():
        assert not re.search("hidden|practice-", text), name


@pytest.mark.parametrize("kind", ["compose", "kubernetes", "ecs"])
def test_files_that_are_there_are_kept_unless_told_otherwise(project, kind):
    name = next(iter(written(project, kind)))
    file = project / "deploy" / kind / name
    file.write_text("mine")
    refused = typed("deploy", kind)
    assert refused.exit_code == 2 and name in refused.stderr and "--overwrite" in refused.stderr
    assert file.read_text() == "mine"
    assert typed("deploy", kind, "--out", "elsewhere").exit_code == 0
    assert typed("deploy", kind, "--overwrite").exit_code == 0
    assert file.read_text() != "mine"


def test_a_project_without_a_dockerfile_gets_the_one_of_a_new_project(project):
    wanted = {name: (project / name).read_text() for name in ("Dockerfile", ".dockerignore")}
    for name in wanted:
        (project / name).unlink()
    told = typed("deploy", "compose").stdout.splitlines()
    assert told[:2] == list(wanted)
    assert {name: (project / name).read_text() for name in wanted} == wanted
    (project / "Dockerfile").write_text("FROM mine\n")
    assert "Dockerfile" not in typed("deploy", "compose", "--overwrite").stdout
    assert (project / "Dockerfile").read_text() == "FROM mine\n"


def test_files_with_secrets_that_the_image_would_contain_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("http://me:s3cret@p.test:80")
    (tmp_path / "shop.py").write_text(
        "from shoal import Scraper\nshop = Scraper('shop')\n@shop.step\ndef page(page): ...\n"
    )
    (tmp_path / "shoal.toml").write_text('[scrapers.shop]\nmodule = "shop.py"\nproxies = "proxies.txt"\n')
    told = typed("deploy", "compose")
    assert told.exit_code == 0 and "The image will contain proxies.txt" in told.stderr
    with (tmp_path / ".dockerignore").open("a") as ignored:
        ignored.write("\nproxies.txt\n")
    assert "proxies.txt" not in typed("deploy", "compose", "--overwrite").stderr


def test_results_of_schedules_have_a_volume_and_all_results_one_folder(project):
    toml = project / "shoal.toml"
    text = re.sub("(?m)^results = .*$", "", toml.read_text())
    nightly = '[schedules.{0}]\nscraper = "people"\nevery = "1h"\nout = "{0}/{{run}}.jsonl"\n'
    toml.write_text(text + nightly.format("first"))
    pod = yaml.safe_load(written(project, "kubernetes")["schedules.yaml"])["spec"]["template"]["spec"]
    assert {"name": "results", "mountPath": "/project/first"} in pod["containers"][0]["volumeMounts"]
    toml.write_text(text + nightly.format("first") + nightly.format("second"))
    refused = typed("deploy", "kubernetes", "--overwrite")
    assert refused.exit_code == 2 and "/project/first, /project/second. Use one folder" in refused.stderr


def test_results_that_end_with_the_task_of_ecs_are_warned_of(project):
    assert "are lost with the coordinator's task" in typed("deploy", "ecs").stderr
    file = project / "shoal.toml"
    file.write_text(re.sub("(?m)^results = .*$", 'results = "s3://bucket/{scraper}.jsonl"', file.read_text()))
    assert "are lost" not in typed("deploy", "ecs", "--overwrite").stderr


def test_a_file_that_the_environment_names_does_not_replace_the_queue_of_the_project(project, monkeypatch):
    monkeypatch.setenv("SHOAL_QUEUE", "sqlite:///practice.db")
    services = yaml.safe_load(written(project, "compose", "rabbitmq")["compose.yaml"])["services"]
    assert {"redis", "rabbitmq"} <= set(services)


def test_the_queue_of_containers_is_never_a_file_and_that_is_said(project):
    assert "The queue is PostgreSQL" in typed("deploy", "compose").stderr

"""The Compose file, and what prepares it."""

import json
import re
import stat
import subprocess
from importlib.resources import files

import pytest
from jsonschema import Draft7Validator

from shoal.cli.signals import FINISH_TIMEOUT_SECONDS, RELEASE_TIMEOUT_SECONDS
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.queue.rabbitmq import address as rabbitmq_address
from shoal.queue.redis import address as redis_address
from tests.unit.deploy.files import DEPLOY, compose

SERVICES = compose()["services"]
SHOAL = ("migrate", "worker", "coordinator", "metrics", "web")


@pytest.mark.parametrize("name", ["compose.yaml", "browser.yaml"])
def test_it_is_as_the_specification_wants_it(name):
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    Draft7Validator(json.loads(schema.read_text())).validate(compose(name))


def test_there_may_be_any_number_of_workers():
    worker = SERVICES["worker"]
    assert not {"container_name", "ports", "hostname"} & set(worker)
    assert "profiles" not in worker


def test_a_worker_has_time_to_finish_and_to_hand_back():
    assert (
        int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
        >= FINISH_TIMEOUT_SECONDS + RELEASE_TIMEOUT_SECONDS + 10
    )


def test_what_is_used_is_declared():
    declared = {kind: set(compose()[kind]) for kind in ("networks", "volumes", "secrets")}
    for service in SERVICES.values():
        assert set(service.get("networks", [])) <= declared["networks"]
        secrets = [one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])]
        assert set(secrets) <= declared["secrets"]
        named = [volume.split(":")[0] for volume in service.get("volumes", [])]
        assert {name for name in named if name.isalpha()} <= declared["volumes"]
        assert set(service.get("depends_on", {})) <= set(SERVICES)


def test_nobody_needs_a_server_that_another_profile_has():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            theirs = set(SERVICES[other].get("profiles", []))
            assert (
                not theirs or theirs <= set(service.get("profiles", [])) or not how.get("required", True)
            ), name


def test_no_secret_is_in_the_file():
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    assert not re.search(r"://[^\s/]*:[^\s/]*@", text)
    for service in SERVICES.values():
        for name in service.get("environment", {}):
            assert not re.search("PASSWORD|TOKEN|QUEUE", name) or name.endswith("_FILE")


@pytest.mark.parametrize("name", [*SHOAL, "pgbouncer"])
def test_containers_of_ours_can_write_nowhere_but_where_they_must(name):
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert [place.split(":")[0] for place in service["tmpfs"]] == ["/tmp"]


def test_servers_listen_on_this_machine_alone():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_images_are_pinned():
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert tag[0].isdigit() or tag[0] == "v", name


def test_the_example_is_a_project():
    project = Project.find(DEPLOY / "example")
    assert load(project, "quotes").scraper.name == "quotes"
    assert project.cluster.storage.results.startswith("/results/")
    assert "SHOAL_QUEUE" not in project.variables


def prepared(folder, *words):
    script = DEPLOY / "compose" / "prepare.sh"
    told = {"PATH": "/usr/bin:/bin", "SHOAL_COMPOSE_FOLDER": str(folder)}
    return subprocess.run(["sh", script, *words], env=told, capture_output=True, text=True, check=False)


def secrets(folder):
    return {file.name: file.read_text().strip() for file in (folder / "secrets").iterdir()}


def test_every_secret_that_the_file_names_is_made(tmp_path):
    assert prepared(tmp_path).returncode == 0
    wanted = {one["file"].removeprefix("secrets/") for one in compose()["secrets"].values()}
    made = secrets(tmp_path)
    assert wanted <= set(made)
    assert len(made["postgres_password"]) == 48
    assert len({made[name] for name in made if name.endswith(("_password", "_token"))}) == 5
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_passwords_stay_when_another_queue_is_chosen(tmp_path):
    prepared(tmp_path)
    before = secrets(tmp_path)
    (tmp_path / ".env").write_text("SHOAL_PROJECT=/srv/books\nCOMPOSE_PROFILES=postgres\n")
    told = prepared(tmp_path, "redis")
    assert told.returncode == 0, told.stderr
    after = secrets(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"queue_url"}
    assert (tmp_path / ".env").read_text() == "SHOAL_PROJECT=/srv/books\nCOMPOSE_PROFILES=redis\n"


def test_the_addresses_are_those_of_the_services(tmp_path):
    prepared(tmp_path)
    made = secrets(tmp_path)
    assert made["queue_url"] == f"postgresql://shoal:{made['postgres_password']}@pgbouncer:6432/shoal"
    prepared(tmp_path, "redis")
    redis = secrets(tmp_path)["queue_url"]
    assert redis_address.read(redis).url == f"redis://:{made['redis_password']}@redis:6379/0"
    prepared(tmp_path, "rabbitmq")
    both = rabbitmq_address.read(secrets(tmp_path)["queue_url"])
    assert both.state == redis
    assert both.urls[0].startswith(f"amqp://shoal:{made['rabbitmq_password']}@rabbitmq:5672/")


def test_a_queue_that_is_none_is_refused_before_anything_is_made(tmp_path):
    told = prepared(tmp_path, "mysql")
    assert told.returncode == 2
    assert "no queue is called 'mysql'. Run: ./prepare.sh postgres" in told.stderr
    assert not list(tmp_path.iterdir())


def test_a_worker_says_on_stdout_what_it_does():
    environment = SERVICES["worker"]["environment"]
    assert environment["SHOAL_LOG_DIR"] == "-"
    assert environment["SHOAL_LOG_FORMAT"] == "${SHOAL_LOG_FORMAT:-json}"

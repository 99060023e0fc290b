"""The images: small, not root, and with their secrets out of files. `make image-test` builds them."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.version import VERSION
from shoal.fleet.telemetry.setup import MetricsServer
from tests.servers.process import free_port
from tests.unit.deploy.files import DEPLOY, ROOT, compose

FOLDER = DEPLOY / "docker"
DOCKERFILE = re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text())
LINES = [line for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]


def stages():
    """Return the instructions of each stage."""
    found = {}
    for line in LINES:
        if line.startswith("FROM "):
            name = line.split(" AS ")[1]
            found[name] = []
        elif found:
            found[name].append(line)
    return found


def allowed(place):
    """Tell whether the builder is handed this file."""
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    return any(Path(place).is_relative_to(line[1:]) for line in lines if line.startswith("!"))


def test_the_image_without_a_target_is_the_plain_one():
    assert list(stages())[-1] == "shoal"


def test_bases_are_pinned_by_version():
    versions = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    assert re.fullmatch(r"\d+\.\d+\.\d+-slim-\w+", versions["PYTHON"])
    assert "latest" not in DOCKERFILE
    for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert image in ("python:${PYTHON}", "debian:${DEBIAN}", "base")


@pytest.mark.parametrize("stage", ["base", "browser", "pgbouncer"])
def test_nobody_is_root(stage):
    users = [line for line in stages()[stage] if line.startswith("USER ")]
    assert users[-1] == "USER 10001:10001"


def test_commands_are_in_exec_form_so_that_signals_reach_them():
    forms = [line.split(" ", 1)[1] for line in LINES if line.startswith(("CMD", "ENTRYPOINT"))]
    assert len(forms) == 3
    assert all(isinstance(json.loads(form), list) for form in forms)
    assert DOCKERFILE.count("HEALTHCHECK ") == 2


def test_everything_that_is_copied_is_there_and_handed_to_the_builder():
    for line in LINES:
        if line.startswith("COPY ") and "--from" not in line:
            for place in [word for word in line.split()[1:-1] if not word.startswith("--")]:
                assert (ROOT / place).exists(), place
                assert allowed(place), place
    assert not allowed(".git") and not allowed("deploy/compose/secrets") and not allowed(".env")


def test_the_version_is_that_of_the_code():
    assert f"-t shoal:{VERSION} " in (FOLDER / "Dockerfile").read_text()
    assert f":-shoal:{VERSION}}}" in compose()["services"]["worker"]["image"]
    assert f"ARG SHOAL=shoal:{VERSION}" in (DEPLOY / "example" / "Dockerfile").read_text()


def entered(*words, **environment):
    """Run a command as the entrypoint does."""
    command = ["sh", FOLDER / "entrypoint.sh", *words]
    told = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=told, capture_output=True, text=True, check=False, timeout=30)


def test_a_secret_in_a_file_becomes_a_variable(tmp_path):
    (tmp_path / "url").write_text("postgresql://shoal:p$(id)`w' \"d@db/shoal\n")
    told = entered("printenv", SHOAL_QUEUE_FILE=str(tmp_path / "url"), SHOAL_METRICS="0.0.0.0:9464")
    lines = told.stdout.splitlines()
    assert "SHOAL_QUEUE=postgresql://shoal:p$(id)`w' \"d@db/shoal" in lines
    assert "SHOAL_METRICS=0.0.0.0:9464" in lines
    assert not [line for line in lines if line.startswith("SHOAL_QUEUE_FILE")]


def test_secrets_of_any_name_become_variables(tmp_path):
    (tmp_path / "GITHUB_TOKENS").write_text("a$(id),b\n")
    told = entered("printenv", SHOAL_SECRETS="GITHUB_TOKENS", SHOAL_SECRETS_FOLDER=str(tmp_path))
    assert "GITHUB_TOKENS=a$(id),b" in told.stdout.splitlines() and "SHOAL_SECRETS" not in told.stdout
    missing = entered("true", SHOAL_SECRETS="OTHER", SHOAL_SECRETS_FOLDER=str(tmp_path))
    assert missing.returncode == 2 and "SHOAL_SECRETS names OTHER" in missing.stderr


def test_a_secret_that_cannot_be_read_ends_it_with_what_to_do(tmp_path):
    told = entered("true", SHOAL_QUEUE_FILE=str(tmp_path / "nowhere"))
    assert told.returncode == 2
    assert "SHOAL_QUEUE_FILE" in told.stderr and "Mount it, or set SHOAL_QUEUE" in told.stderr


def test_the_command_takes_the_place_of_the_shell_and_its_exit_code_counts():
    assert entered("sh", "-c", "exit 3").returncode == 3


async def healthy(**environment):
    """Return the exit code of the health check, and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, FOLDER / "healthy.py", env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, said.decode()


async def answer():
    return b"shoal_workers 1\n"


async def fail():
    raise QueueUnavailable("postgresql://db/shoal", "gone")


STUCK = "Workers that do not respond: process 7."


@pytest.mark.parametrize(
    ("text", "problem", "code", "says"),
    [(answer, "", 0, ""), (fail, "", 1, "answers 503"), (answer, STUCK, 1, f"answers 503: {STUCK}")],
    ids=["well", "it cannot ask its queue", "a worker does not respond"],
)
async def test_a_container_is_as_well_as_its_metrics_say(text, problem, code, says):
    async with MetricsServer(("127.0.0.1", 0), text, lambda: problem) as server:
        port = server.url.split(":")[2].split("/")[0]
        # A proxy is for the world, not for the container itself.
        found, said = await healthy(SHOAL_METRICS=f"0.0.0.0:{port}", http_proxy="http://127.0.0.1:9")
    assert found == code and says in said and bool(said) == bool(code)


async def test_a_container_that_does_not_answer_is_not_well():
    code, said = await healthy(SHOAL_METRICS=f"0.0.0.0:{free_port()}")
    assert code == 1 and "does not answer" in said


async def test_a_container_without_metrics_is_well():
    assert await healthy() == (0, "")

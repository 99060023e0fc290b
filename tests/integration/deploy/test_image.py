"""The image of a project, built from its Dockerfile and from Shoal's, and a fleet that runs from it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import or_skip
from tests.integration.deploy.image import Builder, Container, end, run, send
from tests.servers.postgres import PostgresServer
from tests.servers.process import free_port

USER = 10001
RATE = 'rate="10/s"'  # of the template
HEALTHY = ("python", "/usr/local/lib/shoal/healthy.py")  # as in the Dockerfile
WORKER = ("shoal", "start", "--role", "worker", "--workers", "2")
AT_STOP = 5  # tasks that are done before the first worker is stopped
PRODUCTS = 2_000  # of the demo
DEMO_SECONDS = 40  # from the wheel to the results, without the download of what it needs
INSTALL_AND_DEMO = """
began=$(date +%s)
python3 -m venv /opt/shoal
/opt/shoal/bin/pip install --quiet --no-index --find-links /wheels /folder/shoal-*.whl
cd /tmp
/opt/shoal/bin/shoal demo --json > /folder/demo.json
echo $(($(date +%s) - began))
"""
PODS_GRACE = 60.0  # seconds from SIGTERM to SIGKILL, as the deployment files give

pytestmark = [
    pytest.mark.full,  # it installs a Debian
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can build an image without an engine"),
]


@pytest.fixture
def builder():
    with TemporaryDirectory(prefix="shoal-images-") as store:  # not where pytest keeps it: it has gigabytes
        yield or_skip(lambda: Builder(Path(store)))


@pytest.fixture
def shop(tmp_path):
    """The project that `shoal new` makes, for a shop of its own; and its items without a container."""
    command = [sys.executable, "-m", "shoal", "demo", "--serve", "--port", str(port := free_port())]
    site = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        assert site.stdout and site.stdout.readline()  # it serves
        run(sys.executable, "-m", "shoal", "new", "shop", cwd=tmp_path)
        project = tmp_path / "shop"
        toml, scraper = project / "shoal.toml", project / "shop.py"
        toml.write_text(toml.read_text().replace("127.0.0.1:8800", f"127.0.0.1:{port}"))
        limited = scraper.read_text()
        scraper.write_text(limited.replace(RATE, "rate=None"))
        run(sys.executable, "-m", "shoal", "run", "shop", "--out", tmp_path / "wanted.jsonl", cwd=project)
        scraper.write_text(limited)
        assert RATE in limited
        for file in project.glob("shoal.db*"):
            file.unlink()
        yield project, lines_of([tmp_path / "wanted.jsonl"])
    finally:
        site.kill()
        site.communicate()


def lines_of(files: list[Path]) -> list[str]:
    return sorted(line for file in files for line in file.read_text().splitlines())


def test_a_fleet_runs_from_the_image_and_hands_its_tasks_back_at_sigterm(builder, shop, tmp_path):
    project, wanted = shop
    builder.build_images(project)
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, USER, USER)
    with Container(builder, results) as container, PostgresServer() as server:
        assert_it_has_no_rights(container)
        env = {"SHOAL_QUEUE": server.url()}
        assert container.call("shoal", "migrate", env=env)[0] == 0
        coordinator = container.start("shoal", "start", "--role", "coordinator", env=env)
        try:
            left = work_until_stopped(container, env)
            assert left["leased"] == 0 and left["pending"] > 0
            worker = container.start(*WORKER, env=env)
            try:
                said = coordinator.communicate()
                assert coordinator.returncode == 0, said
            finally:
                end(worker)
        finally:
            end(coordinator)
    assert lines_of([*results.glob("*.jsonl")]) == wanted


def test_the_wheel_alone_gives_the_demo_in_a_bare_debian(builder, tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    said = builder.run_in_debian(INSTALL_AND_DEMO, tmp_path)
    seconds = int(said.splitlines()[-1])
    result = json.loads((tmp_path / "demo.json").read_text().splitlines()[-1])
    print(f"installed and run in {seconds} s")
    assert (result["outcome"], result["items"] + result["rejected"]) == ("complete", PRODUCTS), said
    assert seconds < DEMO_SECONDS, said


def assert_it_has_no_rights(container):
    assert container.call("id", "-u") == (0, f"{USER}\n")
    code, said = container.call("touch", "/project/x")
    assert code != 0 and "Read-only file system" in said
    code, said = container.call("grep", "CapBnd", "/proc/self/status")
    assert said.split() == ["CapBnd:", "0" * 16]
    assert container.call("python", "-m", "pip", "--version")[0] != 0


def work_until_stopped(container, env):
    """Let workers do some tasks, stop them, and return what the run is like then."""
    logs = {"SHOAL_LOG_DIR": "-", "SHOAL_LOG_FORMAT": "json", "SHOAL_METRICS": f"127.0.0.1:{free_port()}"}
    worker = container.start(*WORKER, env=env | logs)
    try:
        done = 0
        while done < AT_STOP:
            line = worker.stdout.readline()
            assert line, worker.communicate()
            done += json.loads(line).get("step") == "product"
        assert container.call(*HEALTHY, env=logs) == (0, "")
        began = time.monotonic()
        send(worker, signal.SIGTERM)
        rest, said = worker.communicate()
        assert worker.returncode == 0, said
        assert time.monotonic() - began < PODS_GRACE
        assert all(json.loads(line)["event"] for line in rest.splitlines())
    finally:
        end(worker)
    code, told = container.call("shoal", "status", "newest", "--json", env=env)
    assert code == 0, told
    return json.loads(told)

"""Each example gives what it must give, on SQLite and on its servers; its deployment files are up to date."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.registries import run as registries
from shoal.core.errors import BrowserMissing
from shoal.fleet.project.deployment import Deployment, deployment_files
from shoal.fleet.project.file import Project
from tests.servers.process import ServerMissing

ROOT = Path(__file__).parents[3]
# As many pages of India as on SQLite: they take as many workers as the 10,000 of `make example-registries`.
URLS = str(registries.FEW)

FLEETS = {
    "listings": "postgres",
    "news": "rabbitmq",
    "profiles": "postgres",
    "registries": "postgres",
    "social": "redis",
}


@pytest.mark.long
@pytest.mark.timeout(900)  # whole projects, among other tests
@pytest.mark.parametrize(("example", "queue"), FLEETS.items())
def test_an_example_gives_what_it_must(example, queue):
    command = [sys.executable, "-m", f"examples.{example}.run", "--queue", queue]
    environment = {"URLS": URLS} | os.environ
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert f"{example} on {queue}: " in told and ("skipped" not in told or "CI" not in os.environ), told


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_its_deployment_files_are_those_that_shoal_writes(kind):
    project = Project.find(ROOT / "examples" / "profiles")
    for name, text in deployment_files(kind, Deployment.of(project, "postgresql://db/x"), "../..").items():
        assert (project.folder / "deploy" / kind / name).read_text() == text, name


def test_without_tor_the_registries_do_without_it_and_say_what_to_install(monkeypatch):
    def missing(exits):
        raise ServerMissing("tor")

    monkeypatch.setattr(registries, "TorNetwork", missing)
    tor = registries.PrivateTor()
    assert tor.options() == ["--tor", "off"]
    assert "tor is not installed" in tor.missing
    tor.close()


def test_without_a_browser_two_registries_are_left_out_by_name(monkeypatch):
    def missing():
        raise BrowserMissing("No Chromium was found")

    monkeypatch.setattr(registries, "find_chromium", missing)
    (line,) = registries._show_browsers(None, None)
    assert line.startswith("Russia and Malaysia: skipped. ") and "apt-get install" in line

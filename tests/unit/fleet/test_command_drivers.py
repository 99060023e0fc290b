"""Docker Compose and Kubernetes, each replaced by a fake program on PATH."""

import asyncio
import os
import sys
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.fleet.scale.drivers import ComposeWorkers, DriverFailed, KubernetesWorkers

# It does what the two commands are documented to do to a number of workers, and keeps that in a file.
STAND_IN = f"""#!{sys.executable}
import pathlib, re, sys, time
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
print("a stand-in, not the real program", file=sys.stderr)
with open(here / "calls", "a") as calls:
    calls.write(" ".join(words) + "\\n")
number = here / "number"
trouble = (here / "trouble").read_text() if (here / "trouble").exists() else ""
if trouble == "hang":
    time.sleep(60)
if trouble:
    sys.exit(trouble)
said = re.search(r"--scale worker=([0-9]+)|--replicas=([0-9]+)", " ".join(words))
if said:
    number.write_text(said[1] or said[2])
elif words[0] == "compose":
    print("\\n".join(f"container{{n}}" for n in range(int(number.read_text()))))
else:
    print(number.read_text(), end="")
"""


class Stage:
    """A folder on PATH with stand-ins for docker and kubectl."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("docker", "kubectl"):
            (folder / name).write_text(STAND_IN)
            (folder / name).chmod(0o755)
        (folder / "number").write_text("0")

    def trouble(self, what):
        (self.folder / "trouble").write_text(what)

    @property
    def calls(self):
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    return Stage(tmp_path)


@pytest.mark.parametrize("kind", [ComposeWorkers, KubernetesWorkers])
async def test_workers_are_set_and_counted_also_to_none_and_back(stage, kind):
    driver = kind()
    for count in (3, 0, 2):
        await driver.set(count)
        assert await driver.count() == count


async def test_compose_scales_the_service_and_leaves_running_containers_alone(stage):
    driver = ComposeWorkers("worker")
    await driver.set(4)
    await driver.count()
    assert stage.calls == [
        "compose up --detach --no-recreate --scale worker=4 worker",
        "compose ps --status running --quiet worker",
    ]


async def test_kubernetes_scales_the_deployment_in_its_namespace(stage):
    driver = KubernetesWorkers("books", namespace="crawl")
    await driver.set(4)
    await driver.count()
    assert stage.calls == [
        "--namespace crawl scale deployment/books --replicas=4",
        "--namespace crawl get deployment/books --output jsonpath={.spec.replicas}",
    ]


async def test_a_command_that_fails_is_named_with_its_error(stage):
    stage.trouble("the server is away")
    with pytest.raises(DriverFailed, match=r"kubectl scale .* failed: .*the server is away"):
        await KubernetesWorkers().set(1)


async def test_a_command_that_hangs_is_ended(stage, monkeypatch):
    monkeypatch.setattr("shoal.fleet.scale.drivers.COMMAND_TIMEOUT", timedelta(seconds=0.5))
    stage.trouble("hang")
    driver = ComposeWorkers()
    async with asyncio.timeout(10):
        with pytest.raises(DriverFailed, match="took longer than"):
            await driver.count()


async def test_an_output_that_is_no_number_is_an_error(stage):
    (stage.folder / "number").write_text("many")
    with pytest.raises(DriverFailed, match="no replica count"):
        await KubernetesWorkers().count()


@pytest.mark.parametrize(("kind", "name"), [(ComposeWorkers, "docker"), (KubernetesWorkers, "kubectl")])
def test_a_program_that_is_missing_is_named(tmp_path, monkeypatch, kind, name):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match=f"needs {name}, which is not on PATH"):
        kind()


@pytest.mark.parametrize("name", ["--all", "a b", "", "a;b", "../x"])
@pytest.mark.parametrize("kind", [ComposeWorkers, KubernetesWorkers])
def test_a_name_that_would_be_an_option_is_refused(stage, kind, name):
    with pytest.raises(InvalidSetting, match="must be a name"):
        kind(name)

"""The drivers of the autoscaler: their contract, and those for Docker Compose and Kubernetes."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.core.model import MINUTE
from shoal.core.text import shorten


class DriverFailed(ShoalError):
    """The workers could not be counted or scaled; a retry may succeed."""


class Driver(Protocol):
    """Runs a number of workers in some environment."""

    async def count(self) -> int:
        """Return the number of workers, without those that are stopping."""
        ...

    async def set(self, count: int) -> None:
        """Scale to `count` workers: start missing ones; surplus ones finish their running tasks and end."""
        ...


# The command waits for a stopped container until it has finished its running tasks.
COMMAND_TIMEOUT = 5 * MINUTE
MAX_SHOWN = 300  # characters of an error
# Names of services and deployments. The pattern also prevents an option from being injected.
_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,251}[a-z0-9])?")


class ComposeWorkers:
    """The containers of a service of Docker Compose, in the folder of its file."""

    def __init__(self, service: str = "worker") -> None:
        self._service = check_name("--service", service)
        self._docker = find_program("docker", "compose")

    async def count(self) -> int:
        """Return how many containers of the service are running."""
        found = await self._compose("ps", "--status", "running", "--quiet", self._service)
        return len(found.split())

    async def set(self, count: int) -> None:
        """Scale to `count` containers; stopped ones get SIGTERM first."""
        scale = f"{self._service}={count}"
        await self._compose("up", "--detach", "--no-recreate", "--scale", scale, self._service)

    async def _compose(self, *words: str) -> str:
        return await run_command([self._docker, "compose", *words])


class KubernetesWorkers:
    """The replicas of a Deployment."""

    def __init__(self, deployment: str = "shoal-worker", *, namespace: str | None = None) -> None:
        self._what = f"deployment/{check_name('--deployment', deployment)}"
        self._where = ["--namespace", check_name("--namespace", namespace)] if namespace else []
        self._kubectl = find_program("kubectl", "kubernetes")

    async def count(self) -> int:
        """Return the desired number of replicas of the Deployment."""
        found = await self._run("get", self._what, "--output", "jsonpath={.spec.replicas}")
        if not found.strip().isdecimal():
            raise DriverFailed(f"kubectl returned no replica count for {self._what}: {shorten(found)!r}")
        return int(found)

    async def set(self, count: int) -> None:
        """Scale to `count` replicas; stopped ones get SIGTERM first."""
        await self._run("scale", self._what, f"--replicas={count}")

    async def _run(self, *words: str) -> str:
        return await run_command([self._kubectl, *self._where, *words])


def check_name(option: str, name: str) -> str:
    """Return a name that can be passed to a program; raises InvalidSetting."""
    if not _NAME.fullmatch(name):
        raise InvalidSetting(option, f"must be a name of letters, digits and dashes, got {shorten(name)!r}")
    return name


def find_program(name: str, driver: str) -> str:
    """Return the path of a program; raises InvalidInput if it is missing."""
    found = shutil.which(name)
    if found is None:
        raise InvalidInput(f"--on {driver} needs {name}, which is not on PATH. Install it, or use --on local")
    return found


async def run_command(command: Sequence[str]) -> str:
    """Run a command and return its stdout; raises DriverFailed if it fails or times out."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the autoscaler, which may be in the middle of a change
        )
    except OSError as error:
        raise DriverFailed(f"{command[0]} cannot be run: {error}") from error
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT.total_seconds()):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise DriverFailed(f"{' '.join(command)} took longer than {COMMAND_TIMEOUT}") from error
    finally:
        await _end(process)
    if process.returncode:
        message = " ".join(err.decode(errors="replace").split()) or f"exit code {process.returncode}"
        raise DriverFailed(f"{' '.join(command)} failed: {shorten(message, MAX_SHOWN)}")
    return out.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""Workers that another program has: Docker Compose or Kubernetes, each through its own command."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import InvalidInput, InvalidSetting, shorten
from shoal.core.model import MINUTE
from shoal.fleet.drivers.contract import DriverFailed

# A container that is let go is waited for by the command until it has finished what it had in hand.
PATIENCE = 5 * MINUTE
MOST_SHOWN = 300
# What a service or a deployment may be called. It keeps an option from being smuggled in as well.
_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,251}[a-z0-9])?")


class ComposeWorkers:
    """The containers of a service of Docker Compose, in the folder of its file."""

    def __init__(self, service: str = "worker", *, patience: timedelta = PATIENCE) -> None:
        self._service, self._patience = checked("--service", service), patience
        self._docker = program("docker", "compose")

    async def count(self) -> int:
        """Return how many containers of the service run."""
        told = await self._compose("ps", "--status", "running", "--quiet", self._service)
        return len(told.split())

    async def set(self, count: int) -> None:
        """Have so many containers; those that go are sent SIGTERM first."""
        scale = f"{self._service}={count}"
        await self._compose("up", "--detach", "--no-recreate", "--scale", scale, self._service)

    async def _compose(self, *words: str) -> str:
        return await output([self._docker, "compose", *words], self._patience)


class KubernetesWorkers:
    """The replicas of a Deployment."""

    def __init__(
        self,
        deployment: str = "shoal-worker",
        *,
        namespace: str | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        self._what, self._patience = f"deployment/{checked('--deployment', deployment)}", patience
        self._where = ["--namespace", checked("--namespace", namespace)] if namespace else []
        self._kubectl = program("kubectl", "kubernetes")

    async def count(self) -> int:
        """Return how many replicas the Deployment is to have."""
        told = await self._run("get", self._what, "--output", "jsonpath={.spec.replicas}")
        if not told.strip().isdecimal():
            raise DriverFailed(f"kubectl told no number of replicas of {self._what}: {shorten(told)!r}")
        return int(told)

    async def set(self, count: int) -> None:
        """Have so many replicas; those that go are sent SIGTERM first."""
        await self._run("scale", self._what, f"--replicas={count}")

    async def _run(self, *words: str) -> str:
        return await output([self._kubectl, *self._where, *words], self._patience)


def checked(option: str, name: str) -> str:
    """Return a name that can be handed to a program; raises InvalidSetting."""
    if not _NAME.fullmatch(name):
        raise InvalidSetting(option, f"must be a name of letters, digits and dashes, got {shorten(name)!r}")
    return name


def program(name: str, place: str) -> str:
    """Return where a program is; raises InvalidInput when it is not there."""
    found = shutil.which(name)
    if found is None:
        raise InvalidInput(f"--on {place} needs {name}, which is not on PATH. Install it, or say --on local")
    return found


async def output(command: Sequence[str], patience: timedelta) -> str:
    """Run a command and return what it writes; raises DriverFailed when it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the scaler, which may be in the middle of a change
        )
    except OSError as error:
        raise DriverFailed(f"{command[0]} cannot be run: {error}") from error
    try:
        async with asyncio.timeout(patience.total_seconds()):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise DriverFailed(f"{' '.join(command)} took longer than {patience}") from error
    finally:
        await _end(process)
    if process.returncode:
        said = " ".join(err.decode(errors="replace").split()) or f"exit code {process.returncode}"
        raise DriverFailed(f"{' '.join(command)} failed: {shorten(said, MOST_SHOWN)}")
    return out.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""Prometheus' own tool, and the servers as the files of `deploy/` start them."""

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers.process import ServerProcess, find_program
from tests.unit.deploy.files import DEPLOY


class Promtool:
    """Runs promtool."""

    def __init__(self) -> None:
        self._program = find_program("promtool", "prometheus")

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *words], capture_output=True, text=True, check=False, timeout=120
        )


class AsDeployed(ServerProcess):
    """A server that is started by the very words that a container would start it with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._program = find_program(name, name)
        super().__init__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, name: str, text: str) -> Path:
        """Write a file that the server may read."""
        place = self.folder / name
        place.write_text(text)
        if self.user:
            shutil.chown(place, self.user)
        return place

    def start(self, command: Sequence[str | Path]) -> None:
        """Start it, and wait until it listens."""
        self._spawn(command, self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def script(name: str) -> str:
    """Return a script of the images."""
    return (DEPLOY / "docker" / name).read_text()

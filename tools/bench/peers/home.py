"""Where the peers live: environments of their own, for they want other versions of libraries than we do."""

import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

from tools.bench.children import ROOT
from tools.bench.talk import say

HOMES = ROOT / "build" / "bench-queue"
PINS = ROOT / "constraints"
SHOWN = ("arq", "celery", "dramatiq", "huey", "taskiq", "taskiq-aio-pika", "taskiq-redis", "redis")


class PeersMissing(Exception):
    """The peers could not be installed."""

    def __init__(self, pins: Path) -> None:
        super().__init__(
            f"The peers of {pins.name} could not be installed; what pip says is above. "
            "Mend the way to the package index, or leave them out: --only postgres,sqlite,redis,rabbitmq"
        )


@cache
def python_of(home: str) -> Path:
    """Return the Python of a home, which is made from its pins if need be; raises PeersMissing."""
    folder, pins = HOMES / home, PINS / f"{home}.txt"
    python, mark = folder / "bin" / "python", folder / "installed"
    wanted = f"{sys.version}\n{pins.read_text()}"
    if not mark.exists() or mark.read_text() != wanted:
        say(f"installing the peers of {pins.name}, which takes a minute")
        venv.create(folder, clear=True, with_pip=True)
        _install(python, pins)
        mark.write_text(wanted)
    return python


def versions(home: str) -> dict[str, str]:
    """Return the versions of the peers that live in a home."""
    lines = (PINS / f"{home}.txt").read_text().splitlines()
    pins = (line.partition(";")[0].strip().partition("==") for line in lines)
    return {name: version for name, _, version in pins if name in SHOWN}


def _install(python: Path, pins: Path) -> None:
    command: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-r",
        pins,
    ]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise PeersMissing(pins)

"""The launchers of a campaign: each a `shoal work` with its keepers, its nursery and its workers."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.chaos.children import children, send, session
from tools.chaos.history import Departure

WORKERS, CONCURRENCY = 3, 8  # of each launcher, and of each worker
DRAINED = (0, 3)  # exit codes: all was done, or all but dead letters
MOST_FAILURES = 10


@dataclass(eq=False)
class Launcher:
    """One `shoal work`, and what has been done to it."""

    number: int
    process: subprocess.Popen[bytes]
    told: str = ""  # the fault that ends it
    told_at: float = 0.0
    stopped: int = 0  # faults that hold it, or one of its workers

    @property
    def pid(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        """Return the processes of its workers: those that the nursery has split off."""
        return [worker for nursery in children(self.pid) for worker in children(nursery)]

    def family(self) -> list[int]:
        """Return all its processes, itself first."""
        return [self.pid, *(pid for pid in session(self.pid) if pid != self.pid)]

    def tell(self, fault: str) -> None:
        """Remember that it will end, and why."""
        self.told, self.told_at = self.told or fault, self.told_at or time.monotonic()


@dataclass
class Launchers:
    """Keeps so many launchers at work until the run is drained."""

    words: Sequence[str]  # of the command
    folder: Path
    count: int
    environment: Mapping[str, str] = field(default_factory=dict)
    present: list[Launcher] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    is_drained: bool = False

    def start(self) -> None:
        """Start all of them."""
        for _ in range(self.count):
            self._start_one()

    def tend(self) -> None:
        """See who has ended, and start another in the place of one that a fault has ended."""
        for launcher in [one for one in self.present if one.process.poll() is not None]:
            self.present.remove(launcher)
            self._note(launcher)
            if not self.is_drained and self._failures < MOST_FAILURES:
                self._start_one()

    def _note(self, launcher: Launcher) -> None:
        code, told = launcher.process.returncode, launcher.told
        seconds = time.monotonic() - launcher.told_at if told else 0.0
        self.departures.append(Departure(launcher.number, code, told, seconds))
        self.is_drained = self.is_drained or (not told and code in DRAINED)

    @property
    def _failures(self) -> int:
        return sum(not one.told for one in self.departures)

    def left_over(self) -> list[int]:
        """Return the processes of launchers that have ended."""
        there = {launcher.pid for launcher in self.present}
        return [pid for leader in self.sessions if leader not in there for pid in session(leader)]

    def end(self) -> None:
        """End whatever is still there."""
        for leader in self.sessions:
            send(signal.SIGKILL, session(leader))
        for launcher in self.present:
            launcher.process.wait()

    def _start_one(self) -> None:
        number = len(self.sessions) + 1
        place = self.folder / f"launcher-{number}"
        place.mkdir()
        words = [*_end_with_us(), sys.executable, "-m", "shoal", "work", *self.words]
        words += [
            "--workers",
            str(WORKERS),
            "--concurrency",
            str(CONCURRENCY),
            "--batch-size",
            str(CONCURRENCY),
        ]
        with (place / "said.txt").open("wb") as said:
            process = subprocess.Popen(
                [*words, "--log-dir", "logs", "--log-format", "json"],
                cwd=place,
                env={**os.environ, "NO_COLOR": "1", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.sessions.append(process.pid)
        self.present.append(Launcher(number, process))


def _end_with_us() -> list[str]:
    """Have the kernel end a launcher when the campaign is killed and cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

"""Running one command from its start to its end, and what it took."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

SAMPLED = 0.2  # seconds between two looks at the memory
TAIL = 1_500  # characters of what a failed command said


class CommandFailed(Exception):
    """A command of the benchmark ended with an error, or not in time."""

    def __init__(self, code: int, said: str) -> None:
        self.code, self.said = code, said
        super().__init__(f"ended with {code}: {said.strip()[-TAIL:]}")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command took; memory is the most that its processes had together, each page counted once."""

    seconds: float
    cpu: float
    memory_mb: float
    said: str


def run(
    command: Sequence[str | Path],
    *,
    folder: Path,
    cores: set[int],
    env: Mapping[str, str],
    timeout: float,
    accept: Sequence[int] = (0,),
) -> Usage:
    """Run a command on some cores and return what it took; raises CommandFailed."""
    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env={**_environment(), **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(os.sched_setaffinity, 0, cores),
        )
        with _watched(process, timeout) as memory:
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if process.returncode not in accept:
        raise CommandFailed(process.returncode, said)
    return Usage(seconds, usage.ru_utime + usage.ru_stime, memory.most, said)


def _environment() -> dict[str, str]:
    """Return this environment, in which Python keeps what it has compiled, as it does where pip installs."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class _watched:
    """Looks at a process's memory while it runs, and ends it when its time is up."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        self._session = process.pid
        self._deadline = time.monotonic() + timeout
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most = 0.0

    def __enter__(self) -> "_watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        # What is left of its session when a command has ended, or was interrupted, has no business to go on.
        with suppress(ProcessLookupError):
            os.killpg(self._session, signal.SIGKILL)

    def _look(self) -> None:
        while not self._ended.wait(SAMPLED):
            self.most = max(self.most, _memory_mb(self._session))
            if time.monotonic() > self._deadline:
                with suppress(ProcessLookupError):
                    os.killpg(self._session, signal.SIGKILL)


def _memory_mb(session: int) -> float:
    return sum(_share_kb(pid) for pid in _members(session)) / 1024


def _members(session: int) -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _session_of(entry) == session]


def _session_of(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return 0


def _share_kb(pid: int) -> int:
    """Return a process's memory; what it shares with others is divided among them."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)

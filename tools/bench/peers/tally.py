"""How jobs are counted, whichever process or thread runs them: one small file for each process."""

import mmap
import os
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FORM = struct.Struct("=qdd")  # jobs, first start, last end
_NAP = 0.002
LONGEST_WAIT = 20.0  # seconds that the first comer waits for the others


@dataclass(frozen=True, slots=True)
class Count:
    """What one process has done, between which moments of the machine's clock."""

    jobs: int
    began: float
    ended: float


class Tally:
    """Counts the jobs of this process; the first one waits until as many processes as expected have one."""

    def __init__(self, folder: Path, processes: int) -> None:
        self._folder, self._processes = folder, processes
        self._lock = threading.Lock()
        self._pid = 0
        self._jobs = 0
        self._began = 0.0

    def __call__(self) -> None:
        """Count one job."""
        with self._lock:
            if self._pid != os.getpid():
                self._open()
            self._jobs += 1
            _FORM.pack_into(self._map, 0, self._jobs, self._began, time.monotonic())

    def _open(self) -> None:
        """Begin to count; what was counted before a fork belongs to the parent."""
        self._pid, self._jobs = os.getpid(), 0
        path = self._folder / str(self._pid)
        path.write_bytes(bytes(_FORM.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORM.size)
        self._wait_for_the_others()
        self._began = time.monotonic()

    def _wait_for_the_others(self) -> None:
        patience = time.monotonic() + LONGEST_WAIT
        while len(list(self._folder.iterdir())) < self._processes and time.monotonic() < patience:
            time.sleep(_NAP)


def read_counts(folder: Path) -> Sequence[Count]:
    """Return what every process that has begun has counted so far."""
    forms = [path.read_bytes() for path in folder.iterdir()]
    counts = [Count(*_FORM.unpack(form)) for form in forms if len(form) == _FORM.size]
    return [count for count in counts if count.jobs]

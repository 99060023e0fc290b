"""Which core a process is on, and what a server and its children have used."""

import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

QUIET = 0.15  # cores that others may use
LOOK = 1.0  # seconds

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _UTIME, _CUTIME = 1, 11, 13  # counted from the state, behind the name


# Read when the program starts: later it is on some core itself.
_CORES = os.sched_getaffinity(0)


def there(cores: set[int]) -> set[int]:
    """Return those of the cores that this machine lends us, or all if it lends none of them."""
    return cores & _CORES or _CORES


def pin(pids: list[int], cores: set[int]) -> None:
    """Keep processes on some cores, as far as they still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.sched_setaffinity(pid, there(cores))


def busy() -> float:
    """Return the processor seconds that everybody on this machine has used so far."""
    user, nice, system, _idle, _waiting, *others = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(others)) / _TICKS


def wait_for_quiet(most: timedelta) -> None:
    """Wait until hardly anybody uses the machine, at most so long."""
    deadline = time.monotonic() + most.total_seconds()
    while time.monotonic() < deadline:
        before = busy()
        time.sleep(LOOK)
        if (busy() - before) / LOOK < QUIET:
            return


def cpu_of(pid: int) -> float:
    """Return the processor seconds that a process has used, with its children, also those that have ended."""
    main, *others = (_stat(one) for one in family_of(pid))
    ticks = sum(main[_UTIME : _CUTIME + 2]) + sum(sum(other[_UTIME:_CUTIME]) for other in others)
    return ticks / _TICKS


def family_of(pid: int) -> list[int]:
    """Return a process and its children."""
    everyone = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid, *(one for one in everyone if _stat(one)[_PARENT : _PARENT + 1] == [pid])]


def _stat(pid: int) -> list[int]:
    """Return the numbers of a process's state, which stands first as 0; nothing when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return [0, *map(int, text.rpartition(")")[2].split()[1:])]

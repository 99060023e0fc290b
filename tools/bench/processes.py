"""What the system knows of processes: how much processor time they have used, and how large they are."""

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _SESSION = 0, 2  # positions in what `_stat` returns
_TIMES = slice(10, 12)  # user and system
_TIMES_WITH_ENDED_CHILDREN = slice(10, 14)


def cpu_of_family(pid: int) -> float:
    """Return the processor seconds of a process and its children, also of those that have ended."""
    children = [stat for stat in map(_stat, _pids()) if stat[:1] == [pid]]
    ticks = sum(_stat(pid)[_TIMES_WITH_ENDED_CHILDREN]) + sum(sum(stat[_TIMES]) for stat in children)
    return ticks / _TICKS


def cpu_of_sessions(sessions: Collection[int]) -> float:
    """Return the processor seconds of all processes that live in these sessions."""
    stats = [stat for stat in map(_stat, _pids()) if stat and stat[_SESSION] in sessions]
    return sum(sum(stat[_TIMES]) for stat in stats) / _TICKS


def _stat(pid: int) -> list[int]:
    """Return the numbers of a process's state, from its parent's pid on; nothing when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return [int(word) for word in text.rpartition(")")[2].split()[1:]]


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))


def kill_session(session: int) -> None:
    """End every process that still lives in a session which we have started."""
    for pid in _pids():
        if _stat(pid)[_SESSION : _SESSION + 1] == [session]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def memory_of(pid: int | str, field: str = "VmRSS") -> int:
    """Return a size of a process in bytes, by its name in the system's status of it."""
    # Not from getrusage: its maximum still counts the parent's memory, from before this program was loaded.
    status = Path(f"/proc/{pid}/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(kib) * 1024

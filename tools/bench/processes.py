"""What the system knows of processes: how much processor time they have used."""

import os
from collections.abc import Collection, Iterator
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

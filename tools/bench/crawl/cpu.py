"""What a server and its children have used, from /proc."""

import os
from pathlib import Path

_PARENT, _UTIME, _CUTIME = 1, 11, 13  # counted from the state, behind the name


def cpu_of(pid: int) -> float:
    """Return the processor seconds that a process has used, with its children, also those that have ended."""
    main, *others = (_stat(one) for one in family_of(pid))
    ticks = sum(main[_UTIME : _CUTIME + 2]) + sum(sum(other[_UTIME:_CUTIME]) for other in others)
    return ticks / os.sysconf("SC_CLK_TCK")


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

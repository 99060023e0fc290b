"""Process states from Linux's /proc; on other systems they are unknown."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

STOPPED = ("T", "t")  # by a signal, or by a debugger
ENDED = ("Z", "X")  # a zombie that its parent has not reaped: in a container nothing may reap it


def state_of_process(pid: int) -> str:
    """Return the letter of a process's state, empty if it is unknown."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return ""


def is_process_running(pid: int) -> bool:
    """Return whether a process of this machine exists and has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return state_of_process(pid) not in ENDED


@cache
def pid_scope() -> str | None:
    """Return the scope in which process ids are valid: this boot of this machine, and this PID namespace."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return None

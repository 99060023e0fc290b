"""What Linux says of processes; on other systems nothing is known."""

from contextlib import suppress
from functools import cache
from pathlib import Path

STOPPED = ("T", "t")  # by a signal, or by a debugger
ENDED = ("Z", "X")  # and only its parent has not been told: in a container nobody may ask


def state_of_process(pid: int) -> str:
    """Return the letter of a process's state, empty where it is not known."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return ""


@cache
def pid_scope() -> str | None:
    """Return what process ids are valid in: this boot of this machine, and the namespace of this process."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return None

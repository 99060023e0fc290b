"""Temporary folders of programs that a worker starts, removed by the next worker if it is killed."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class OwnedFolder:
    """A folder that belongs to this process until it ends or removes it; only its user may open it."""

    def __init__(self, prefix: str) -> None:
        sweep(prefix)
        fresh = Path(tempfile.mkdtemp(prefix=f".{prefix}{os.getpid()}-"))  # with mode 700
        # Not inherited by the program, and released by the system however we end.
        self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(OSError):  # as on NFS; then no other process can tell that we have ended
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Renamed only now to the name that others remove when nothing holds its lock.
        self.path = fresh.rename(fresh.with_name(fresh.name.removeprefix(".")))

    def remove(self) -> None:
        """Remove the folder with all that was written there; a second call does nothing."""
        _remove(self.path)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def sweep(prefix: str) -> None:
    """Remove the folders of processes that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _is_abandoned(folder):
            _remove(folder)


def _is_abandoned(folder: Path) -> bool:
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(lock).st_uid == os.geteuid()
        finally:
            os.close(lock)
    return False


def _remove(folder: Path) -> None:
    for _ in range(3):  # a program that is ending may still write to it
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return

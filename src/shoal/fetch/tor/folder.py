"""The folder of one Tor process: private, and removed with us, or else when the next one is created."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "shoal-tor-"
LOCK = "owner"


class TorFolder:
    """A folder that belongs to this process until it ends or removes it."""

    def __init__(self) -> None:
        sweep()
        fresh = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))  # with mode 700
        # Not inherited by Tor, and released by the system however we end.
        self._lock = os.open(fresh / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Renamed only now to the name that others remove when nothing holds its lock.
        self.path = fresh.rename(fresh.with_name(fresh.name.removeprefix(".")))
        (self.path / "data").mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder with all that Tor wrote there; a second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def sweep() -> None:
    """Remove the folders of processes that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(lock)
    return False

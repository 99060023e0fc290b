"""The folder of one Tor: for our eyes only, and gone when we are, at the latest when another one is made."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "shoal-tor-"
LOCK = "owner"


class TorFolder:
    """A folder that is ours for as long as we live and do not remove it."""

    def __init__(self) -> None:
        sweep()
        fresh = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))  # with mode 700
        # Not inherited by Tor, and let go of by the system however we end.
        self._lock = os.open(fresh / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Only now by the name that others sweep away when nobody holds its lock.
        self.path = fresh.rename(fresh.with_name(fresh.name.removeprefix(".")))
        (self.path / "data").mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder with all that Tor has written there; nothing happens the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def sweep() -> None:
    """Remove the folders of those who were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_deserted(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_deserted(folder: Path) -> bool:
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

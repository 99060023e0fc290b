"""Files that are written under a temporary name: locked while they are, so that a leftover can be told."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

# After that a file without a lock is a leftover where locks do not work.
MAX_AGE_SECONDS = 24 * 3600.0


def open_locked(path: Path, flags: int) -> int | None:
    """Create a file and lock it until it is closed; None if another process took it for a leftover before."""
    handle = os.open(path, flags, 0o666)
    with suppress(OSError):  # not all network file systems have locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def remove_if_left(path: Path) -> bool:
    """Remove an incomplete file that nobody writes to any more; return whether it was removed."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if time.time() - os.fstat(handle).st_mtime < MAX_AGE_SECONDS:
            return False
    else:
        path.unlink(missing_ok=True)  # while it is locked: see `open_locked`
        return True
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)
    return True

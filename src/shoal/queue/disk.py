"""Names the file system that a file is on, and the room it has: for errors about a full disk."""

import errno
import os
import shutil
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
_UNITS = ("B", "KB", "MB", "GB", "TB")


def describe_disk(path: Path) -> str:
    """Return the file system of a path with its free space, for a message; the path itself if that fails."""
    place = Path(os.path.realpath(path))
    while not place.is_mount() and place != place.parent:
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return f"the disk of {path}"
    return f"the file system {place} ({_size(usage.free)} of {_size(usage.total)} free)"


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"

"""Which files of a project are obeyed: it names code to run, so that of another user must not be found."""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger(__name__)


def is_trusted(file: Path, start: Path) -> bool:
    """Tell whether a file may be obeyed by whoever works in `start`; a warning says why it may not.

    It must belong to this user or to root, and nobody else may write to it. In `start` itself it may also
    belong to the owner of the folder, as in a container that mounts a project of the host's user.
    """
    try:
        reason = _reason_against(file, start)
    except OSError as error:
        reason = str(error)
    if reason:
        log.warning("Ignored %s: %s", file, reason)
    return reason is None


def _reason_against(file: Path, start: Path) -> str | None:
    found, folder = file.stat(), file.parent.stat()
    if found.st_mode & stat.S_IWOTH:
        return f"every user may write to it. Run: chmod o-w {file}"
    owners = {0, os.geteuid(), *_sudo_user()}
    if file.parent == start:
        owners.add(folder.st_uid)
    if found.st_uid not in owners:
        return f"it belongs to another user (uid {found.st_uid}). To use it, change to its folder or copy it"
    return None


def _sudo_user() -> list[int]:
    """Return the user who called sudo, whose own files are meant."""
    given = os.environ.get("SUDO_UID", "")
    return [int(given)] if os.geteuid() == 0 and given.isdecimal() else []

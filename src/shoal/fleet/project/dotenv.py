"""The `.env` file of a project, and which files of other users are not read."""

import logging
import os
import stat
from pathlib import Path

from dotenv import dotenv_values

PROGRAMS = ("SHOAL_CHROMIUM",)  # programs to start; only the real environment may set them

log = logging.getLogger(__name__)


def read_dotenv(folder: Path) -> dict[str, str]:
    """Return the SHOAL_ variables of the folder's `.env`."""
    file = folder / ".env"
    if not file.is_file() or not is_trusted(file, Path.cwd()):
        return {}

    found = dotenv_values(file, interpolate=False)
    return {name: value for name, value in found.items() if value is not None and _may_be_set(name)}


def _may_be_set(name: str) -> bool:
    return name.startswith("SHOAL_") and name not in PROGRAMS


def is_trusted(file: Path, start: Path) -> bool:
    """Return whether a file found from `start` can be trusted; a warning says why not.

    It must belong to this user or to root, and no other user may write to it. In `start` itself it may also
    belong to the owner of the folder, as in a container that mounts a project of the host's user.
    """
    try:
        reason = _why_untrusted(file, start)
    except OSError as error:
        reason = str(error)
    if reason:
        log.warning("Ignored %s: %s", file, reason)
    return reason is None


def _why_untrusted(file: Path, start: Path) -> str | None:
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
    """Return the user who called sudo, whose own files are trusted."""
    given = os.environ.get("SUDO_UID", "")
    return [int(given)] if os.geteuid() == 0 and given.isdecimal() else []

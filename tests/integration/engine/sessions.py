"""Which processes a command has left behind."""

from pathlib import Path


def left_over(session):
    """Return the processes of a session that are still there, by id."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything; behind it come state, parent, group and session.
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(number) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found

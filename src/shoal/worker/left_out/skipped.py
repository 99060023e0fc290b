"""Tasks that a step skipped by SkipTask, counted by reason beside the links that were not followed."""

from collections.abc import Collection

from shoal.core.text import printable, shorten
from shoal.worker.left_out.reasons import SKIPPED

MAX_LENGTH = 100  # characters of a reason
MAX_REASONS = 50  # of one worker: a reason that holds a price or an id would fill the record


def skip_reason(reason: str, counted: Collection[str]) -> str:
    """Return the name under which a skipped task is counted; after many names, a common one."""
    name = SKIPPED + shorten(printable(" ".join(reason.split())), MAX_LENGTH)
    if name in counted or sum(one.startswith(SKIPPED) for one in counted) < MAX_REASONS:
        return name
    return f"{SKIPPED}other reasons"

"""Finds dead letters by their ids, which may be shortened to a start that no other letter of the run has."""

from collections.abc import Sequence

from shoal.core.errors import InvalidSetting, UnknownLetter
from shoal.core.model import DeadLetter
from shoal.queue.contract import QueueReports

WHOLE = 32  # characters of an id
LEAST = 4  # characters of a shortened one, as in git
MAX_SHOWN = 5  # ids in an error


async def find_letter(queue: QueueReports, run_id: str, letter_id: str) -> DeadLetter:
    """Return a dead letter by its id or the start of it.

    Raises UnknownLetter, and InvalidSetting if the start is that of several ids.
    """
    ids = await whole_ids(queue, run_id, [letter_id])
    async for letter in queue.dead(run_id, ids=ids):
        return letter
    raise UnknownLetter(run_id, letter_id)


async def whole_ids(queue: QueueReports, run_id: str, ids: Sequence[str]) -> list[str]:
    """Return the ids of dead letters in full, each once; one that is given in full need not exist.

    A shortened id is looked for in the list of dead letters, whatever its length; one in full costs nothing.
    Raises UnknownLetter, and InvalidSetting for a start of several ids or one that is too short.
    """
    starts = {one.lower() for one in ids if len(one) < WHOLE}
    for start in starts:
        if len(start) < LEAST:
            raise InvalidSetting("ID", f"must have at least {LEAST} characters of an id, got {start!r}")
    found: dict[str, list[str]] = {start: [] for start in starts}
    if starts:
        async for letter in queue.dead(run_id):
            for length in {len(start) for start in starts}:
                if (start := letter.id[:length]) in found:
                    found[start].append(letter.id)
    return list(dict.fromkeys(_only(run_id, one, found.get(one.lower())) for one in ids))


def _only(run_id: str, given: str, found: Sequence[str] | None) -> str:
    if found is None:
        return given.lower()
    if not found:
        raise UnknownLetter(run_id, given)
    if len(found) > 1:
        more = ", …" if len(found) > MAX_SHOWN else ""
        shown = ", ".join(found[:MAX_SHOWN])
        raise InvalidSetting("ID", f"{given!r} begins {len(found):,} ids: {shown}{more}")
    return found[0]

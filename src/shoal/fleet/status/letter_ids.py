"""Finds dead letters by their ids, or by the start or the end of one that no other letter of the run has."""

from collections.abc import Sequence

from shoal.core.errors import InvalidSetting, UnknownLetter
from shoal.core.model import DeadLetter
from shoal.queue.contract import QueueReports

WHOLE = 32  # characters of an id
LEAST = 4  # characters of a shortened one, as in git
MAX_SHOWN = 5  # ids in an error


async def find_letter(queue: QueueReports, run_id: str, letter_id: str) -> DeadLetter:
    """Return a dead letter by its id, or the start or end of it.

    Raises UnknownLetter, and InvalidSetting if several ids have this start or end.
    """
    ids = await whole_ids(queue, run_id, [letter_id])
    async for letter in queue.dead(run_id, ids=ids):
        return letter
    raise UnknownLetter(run_id, letter_id)


async def whole_ids(queue: QueueReports, run_id: str, ids: Sequence[str]) -> list[str]:
    """Return the ids of dead letters in full, each once; one that is given in full need not exist.

    A shortened id is looked for in the list of dead letters, whatever its length; one in full costs nothing.
    The ids of one site begin alike, so that its end is the shorter name of a letter. Raises
    UnknownLetter, and InvalidSetting for a part of several ids or one that is too short.
    """
    parts = {one.lower() for one in ids if len(one) < WHOLE}
    for part in parts:
        if len(part) < LEAST:
            raise InvalidSetting("ID", f"must have at least {LEAST} characters of an id, got {part!r}")
    found: dict[str, list[str]] = {part: [] for part in parts}
    lengths = {len(part) for part in parts}
    if parts:
        async for letter in queue.dead(run_id):
            for part in {end for n in lengths for end in (letter.id[:n], letter.id[-n:])} & parts:
                found[part].append(letter.id)
    return list(dict.fromkeys(_only(run_id, one, found.get(one.lower())) for one in ids))


def _only(run_id: str, given: str, found: Sequence[str] | None) -> str:
    if found is None:
        return given.lower()
    if not found:
        raise UnknownLetter(run_id, given)
    if len(found) > 1:
        more = ", …" if len(found) > MAX_SHOWN else ""
        shown = ", ".join(found[:MAX_SHOWN])
        raise InvalidSetting("ID", f"{given!r} is the start or end of {len(found):,} ids: {shown}{more}")
    return found[0]

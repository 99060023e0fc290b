"""Finds runs and dead letters by a part of an id, runs by `newest` too, and hosts of a similar name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, RunGone, UnknownLetter, UnknownRun
from shoal.core.model import DeadLetter, Run
from shoal.core.tasks import first
from shoal.queue.contract import QueueReports

NEWEST = "newest"
AUTO = "auto"  # as the run to resume: the newest unfinished one, or a new one
NEWEST_ELSEWHERE = ("latest", "last", "current")  # what is often typed instead
MAX_SHOWN = 5  # ids in an error
MAX_HOSTS = 10_000  # that are searched
WHOLE_ID = 32  # characters of the id of a dead letter
SHORTEST_ID = 4  # characters of a shortened one, as in git


def standing_run_id(scraper: str) -> str:
    """Return the id of the run for a scraper's on-demand calls."""
    return f"ondemand_{scraper}"


def is_standing(run: Run) -> bool:
    """Return whether a run is for on-demand calls: only the callers claim its tasks."""
    return run.id == standing_run_id(run.scraper)


async def find_run(queue: QueueReports, name: str | None = NEWEST, *, scraper: str | None = None) -> Run:
    """Return the run of this name, or of a scraper the newest one to work on; None means the newest too.

    Raises UnknownRun, and InvalidSetting if the name begins several ids or the queue has no runs.
    """
    if name not in (None, NEWEST):
        try:
            return await queue.run(str(name))
        except UnknownRun:
            return _match(str(name), [run for run in await queue.runs() if _is_of(run, scraper)])
    runs = [run for run in await queue.runs() if _is_of(run, scraper)]
    newest = next((run for run in runs if scraper is None or not is_standing(run)), None)
    if newest is None:
        whose = f" of {scraper!r}" if scraper else ""
        start = f"Start one with: {shoal_command('run FILE --url …')}"
        raise InvalidSetting(NEWEST, f"is no run yet: this queue has no runs{whose}. {start}")
    return newest


async def find_run_or_newest_of(queue: QueueReports, name: str | None) -> Run:
    """Return the run of this name, or the newest one of the scraper of this name; raises like `find_run`."""
    try:
        return await find_run(queue, name)
    except UnknownRun:
        if any(run.scraper == name for run in await queue.runs()):
            return await find_run(queue, scraper=name)
        raise


@contextmanager
def deletion_named(run_id: str) -> Iterator[None]:
    """Raise RunGone inside the block if the run, which was there, is unknown."""
    try:
        yield
    except UnknownRun as error:
        if error.run_id != run_id:
            raise
        raise RunGone(run_id) from error


async def describe_unknown_host(queue: QueueReports, host: str) -> str:
    """Return which hosts were meant if no run has tasks on this one; empty if one has.

    A host with a port is a host of its own: its rate limit is, too.
    """
    similar = []
    async for one in first(queue.hosts(), MAX_HOSTS):
        if one.host == host:
            return ""
        if one.host.partition(":")[0] == host.partition(":")[0]:
            similar.append(one.host)
    meant = f" Did you mean {' or '.join(similar[:MAX_SHOWN])}?" if similar else ""
    return f"No run has tasks on {host} yet.{meant}"


def _match(start: str, runs: Sequence[Run]) -> Run:
    found = [run for run in runs if start and run.id.startswith(start)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRun(start, [run.id for run in runs], meant=NEWEST if start in NEWEST_ELSEWHERE else "")
    raise InvalidSetting("RUN", f"{start!r} begins {_listed([run.id for run in found])}")


def _is_of(run: Run, scraper: str | None) -> bool:
    return scraper is None or run.scraper == scraper


def _listed(ids: Sequence[str]) -> str:
    more = ", …" if len(ids) > MAX_SHOWN else ""
    return f"{len(ids):,} ids: {', '.join(ids[:MAX_SHOWN])}{more}"


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
    parts = {one.lower() for one in ids if len(one) < WHOLE_ID}
    for part in parts:
        if len(part) < SHORTEST_ID:
            raise InvalidSetting("ID", f"must have at least {SHORTEST_ID} characters of an id, got {part!r}")
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
        raise InvalidSetting("ID", f"{given!r} is the start or end of {_listed(found)}")
    return found[0]

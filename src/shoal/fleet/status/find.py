"""Finds the run that a name means: its id, the start of its id, or `newest`; and hosts of a similar name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, RunGone, UnknownRun
from shoal.core.model import Run
from shoal.core.tasks import first
from shoal.queue.contract import QueueReports

NEWEST = "newest"
AUTO = "auto"  # as the run to resume: the newest unfinished one, or a new one
NEWEST_ELSEWHERE = ("latest", "last", "current")  # what is often typed instead
MAX_SHOWN = 5  # ids in an error
MAX_HOSTS = 10_000  # that are searched


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
    more = ", …" if len(found) > MAX_SHOWN else ""
    ids = ", ".join(run.id for run in found[:MAX_SHOWN])
    raise InvalidSetting("RUN", f"{start!r} begins {len(found):,} ids: {ids}{more}")


def _is_of(run: Run, scraper: str | None) -> bool:
    return scraper is None or run.scraper == scraper

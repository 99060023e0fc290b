"""A run once more: begun with the pages of an earlier one, and compared with what they were."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from shoal.core.errors import InvalidSetting, RunConflict
from shoal.core.model import ZERO, Run, Task
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.listing import listed
from shoal.worker.visits import KEEP, Finding, Visit, added, encode, key_of, spelled, topic

NEWEST = "newest"
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the pages of a run compare with the visits before."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the fields that `shoal run --again --json` promises."""
        return {"new": self.new, "changed": self.changed, "unchanged": self.unchanged, "gone": self.gone}


async def compared(queue: Queue, run: Run) -> Comparison:
    """Return what a run found of its pages: new, changed, unchanged, gone."""
    counts: Counter[str] = Counter()
    for page in await listed(queue, run.scraper, run.id):
        counts[page.finding] += 1
    return Comparison(**counts)


async def earlier_run(queue: Queue, scraper: Scraper, *, but: str | None = None) -> Run | None:
    """Return the run that a scraper's setting `again` names, None without it.

    Raises UnknownRun, RunConflict for one of another scraper, InvalidSetting where there is none.
    """
    wanted = scraper.settings.again
    if wanted is None:
        return None
    if wanted == NEWEST:
        for run in await queue.runs():
            if run.scraper == scraper.name and run.id != but:
                return run
        raise InvalidSetting(
            "--again", f"finds no run of {scraper.name!r} in this queue. List them with: shoal runs"
        )
    run = await queue.run(wanted)
    if run.scraper != scraper.name:
        raise RunConflict.of_another(run.id, run.scraper, scraper.name)
    return run


async def pages_again(queue: Queue, scraper: Scraper, *, but: str | None = None) -> Iterator[Task]:
    """Return a task for every page that is to be visited again; raises as `earlier_run` does.

    A run that listed no page is known by its items alone.
    """
    earlier = await earlier_run(queue, scraper, but=but)
    if earlier is None:
        return iter(())
    pages = await listed(queue, scraper.name, earlier.id)
    first = next(pages, None)
    if first is None:
        return iter(await _learnt(queue, scraper, earlier))
    return (
        replace(page.task, delay=ZERO)
        for page in chain([first], pages)
        if page.finding is not Finding.GONE and page.task.step in scraper.steps
    )


async def _learnt(queue: Queue, scraper: Scraper, earlier: Run) -> list[Task]:
    """Remember the pages of a run that did not do so itself, as far as its items tell of them."""
    pages: dict[str, tuple[Task, bytes]] = {}
    async for item in queue.items(earlier.id):
        if item.url is not None and item.step in scraper.steps:
            task = Task(url=item.url, step=item.step)
            _, total = pages.get(key_of(task), (task, b""))
            pages[key_of(task)] = task, added(total, spelled(item.data))
    if not pages:
        reason = (
            f"finds no page of run {earlier.id}. Write recrawl=True in the scraper, and run it once before"
        )
        raise InvalidSetting("--again", reason)
    for batch in _batches(list(pages)):
        known = await queue.notes(topic("pages", scraper.name), batch)  # by runs that did remember
        visits = {key: Visit(run=earlier.id, finding=Finding.NEW, items=pages[key][1]) for key in batch}
        values = {key: encode(visit) for key, visit in visits.items() if key not in known}
        await queue.write_notes(topic("pages", scraper.name), values, ttl=KEEP)
    return [task for task, _ in pages.values()]


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]

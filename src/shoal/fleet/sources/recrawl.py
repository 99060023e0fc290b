"""Recrawl: a run that starts with the pages of an earlier one, and compares them with the last visit."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, RunConflict
from shoal.core.model import ZERO, Run, Task
from shoal.fleet.status.find import AUTO, NEWEST, is_standing
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.page_changes import canonical_json
from shoal.worker.recrawl import (
    VISIT_TTL,
    PageChange,
    PageVisit,
    add_digest,
    encode,
    key_of,
    read_index,
    topic,
)

BATCH = 500


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How the pages of a run compare with their previous visits."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    failed: int = 0
    not_due: int = 0
    over_budget: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the fields that `shoal run --again --json` promises."""
        return msgspec.structs.asdict(self)

    def __str__(self) -> str:
        words = [
            f"{self.new:,} new, {self.changed:,} changed, {self.unchanged:,} unchanged, {self.gone:,} gone"
        ]
        words += [f"{self.failed:,} failed"] if self.failed else []
        words += [f"{self.not_due:,} not due"] if self.not_due else []
        words += [f"{self.over_budget:,} due and left for the next run"] if self.over_budget else []
        return ", ".join(words)


async def compared(queue: Queue, run: Run) -> Comparison:
    """Return how many pages of a run are new, changed, unchanged and gone, and how many were not fetched."""
    counts: Counter[str] = Counter()
    for _, page in await read_index(queue, run.scraper, run.id):
        counts[page.finding] += 1
    return Comparison(**counts)


async def earlier_run(queue: Queue, scraper: Scraper, *, but: str | None = None) -> Run | None:
    """Return the run that `again` or `revisit` names; None without these, or if `auto` finds none.

    Raises UnknownRun, RunConflict for another scraper's run, InvalidSetting if there is no run.
    """
    wanted = scraper.settings.begins_with
    if wanted is None:
        return None
    if wanted in (NEWEST, AUTO):
        runs = [run for run in await queue.runs() if run.scraper == scraper.name]
        runs = [run for run in runs if run.id != but and not is_standing(run)]
        if wanted == AUTO:
            return await _newest_complete(queue, runs)
        if runs:
            return runs[0]
        raise InvalidSetting(
            "--again",
            f"found no run of {scraper.name!r} in this queue. List them with: {shoal_command('runs')}. "
            "To begin with the seeds if there is none: --again auto",
        )
    run = await queue.run(wanted)
    if run.scraper != scraper.name:
        raise RunConflict.of_another(run.id, run.scraper, scraper.name)
    return run


async def _newest_complete(queue: Queue, runs: Sequence[Run]) -> Run | None:
    """Return the newest run that has seen all its pages, else the newest with pages; None if there is none.

    After one that was stopped, later runs would lack the pages that it has not seen.
    """
    stopped = None
    for run in runs:
        stats = await queue.stats(run.id)
        if stats.items or (await queue.notes_size(topic("pages", run.scraper, run.id))).count:
            if not stats.remaining:
                return run
            stopped = stopped or run
    return stopped


async def recrawl_tasks(queue: Queue, scraper: Scraper, *, but: str | None = None) -> Iterator[Task]:
    """Return a task for every page to recrawl; raises like `earlier_run`.

    If the run recorded no pages, they are read from its items.
    """
    earlier = await earlier_run(queue, scraper, but=but)
    if earlier is None:
        return iter(())

    pages = await read_index(queue, scraper.name, earlier.id)
    first = next(pages, None)
    if first is None:
        return iter(await _pages_from_items(queue, scraper, earlier))
    return (
        replace(page.task, delay=ZERO)
        for _, page in chain([first], pages)
        if page.finding is not PageChange.GONE and page.task.step in scraper.steps
    )


async def _pages_from_items(queue: Queue, scraper: Scraper, earlier: Run) -> list[Task]:
    """Record the pages of a run that did not record them itself, as far as its items show them."""
    pages: dict[str, tuple[Task, bytes]] = {}
    async for item in queue.items(earlier.id):
        if item.url is not None and item.step in scraper.steps:
            task = Task(url=item.url, step=item.step)
            _, total = pages.get(key_of(task), (task, b""))
            pages[key_of(task)] = task, add_digest(total, canonical_json(item.data))
    if not pages:
        reason = f"found no page of run {earlier.id}. Set recrawl=True in the scraper, and run it once first"
        raise InvalidSetting("--again", reason)
    for batch in _batches(list(pages)):
        known = await queue.notes(topic("pages", scraper.name), batch)  # recorded by other runs
        visits = {
            key: PageVisit(run=earlier.id, finding=PageChange.NEW, items=pages[key][1]) for key in batch
        }
        values = {key: encode(visit) for key, visit in visits.items() if key not in known}
        await queue.write_notes(topic("pages", scraper.name), values, ttl=VISIT_TTL)
    return [task for task, _ in pages.values()]


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]

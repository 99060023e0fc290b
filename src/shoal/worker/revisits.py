"""What earlier runs saw of a page: asked about again, and compared with what is there now."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from shoal.core.exchange import Response
from shoal.core.model import Task
from shoal.fetch.cache_notes import NotesStore
from shoal.fetch.cache_rules import validators
from shoal.fetch.notes import Notes
from shoal.scrape.harvest import Harvest
from shoal.worker.listing import Listing
from shoal.worker.visits import (
    KEEP,
    Finding,
    Visit,
    digest,
    digest_of,
    encode,
    found,
    key_of,
    read_harvest,
    read_visit,
    spelled,
    topic,
    write_harvest,
)

GONE = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a page from before; `gave` is None where it must be read anew."""

    visit: Visit | None = None
    gave: Harvest | None = None

    @property
    def conditions(self) -> Mapping[str, str]:
        """The headers that ask whether the page has changed."""
        return self.visit.validators if self.visit and self.gave else {}


class Revisits:
    """Remembers the pages of one scraper for its next run, in the queue's notes.

    Only a run that is done `again` makes use of what pages gave before.
    """

    def __init__(self, queue: Notes, scraper: str, run_id: str, *, again: bool) -> None:
        self._run_id, self._again = run_id, again
        self._visits = NotesStore(queue, topic=topic("pages", scraper))
        self._harvests = NotesStore(queue, topic=topic("harvests", scraper))
        self._listing = Listing(queue, scraper, run_id)

    async def past(self, task: Task) -> Past:
        """Return what is known of a task's page."""
        key = key_of(task)
        held, kept = await asyncio.gather(self._visits.get(key), self._harvests.get(key))
        visit = read_visit(held.value) if held else None
        if visit is None or kept is None or not self._again or visit.finding is Finding.GONE:
            return Past(visit)
        return Past(visit, read_harvest(kept.value, visit.body))

    def is_gone(self, past: Past, response: Response) -> bool:
        """Tell whether a page that was there is no longer."""
        return self._again and past.visit is not None and response.status in GONE

    def same(self, past: Past, response: Response) -> Harvest | None:
        """Return what the page gave before if it is still the same, else None."""
        if past.visit is None or past.gave is None:
            return None
        if response.status == 304 or (response.status == 200 and digest(response.body) == past.visit.body):
            return past.gave
        return None

    async def note(self, task: Task, past: Past, response: Response, harvest: Harvest) -> None:
        """Remember what a page gave now."""
        if harvest is past.gave and past.visit:
            await self._put(task, past, past.visit)
            return
        items = [spelled(item) for item in harvest.items]
        visit = Visit(
            run=self._run_id,
            finding=Finding.NEW,
            validators=validators(response.headers),
            body=digest(response.body),
            items=digest_of(items),
            follow=digest_of(f"{one.step} {one.key or one.url}".encode() for one in harvest.follow),
        )
        await self._harvests.put(key_of(task), write_harvest(harvest, items, visit.body), keep=KEEP)
        await self._put(task, past, visit)

    async def note_gone(self, task: Task, past: Past) -> None:
        """Remember that a page is no longer there."""
        await self._harvests.put(key_of(task), None, keep=KEEP)
        await self._put(task, past, Visit(run=self._run_id, finding=Finding.GONE))

    async def close(self) -> None:
        """Write down what is still on its way."""
        for store in (self._harvests, self._visits, self._listing):
            await store.close()

    async def _put(self, task: Task, past: Past, now: Visit) -> None:
        visit = msgspec.structs.replace(now, run=self._run_id)
        visit = msgspec.structs.replace(visit, finding=found(past.visit, visit))
        self._listing.add(task, visit.finding)
        await self._visits.put(key_of(task), encode(visit), keep=KEEP)

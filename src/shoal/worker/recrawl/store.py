"""What earlier runs recorded of a page, and how it compares with the page now."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.rules import validators
from shoal.fetch.shared_state import SharedState
from shoal.scrape.harvest import Harvest
from shoal.worker.recrawl.history import (
    VISIT_TTL,
    PageChange,
    PageVisit,
    canonical_json,
    compare_visits,
    digest,
    digest_of,
    encode,
    key_of,
    read_harvest,
    read_visit,
    topic,
    write_harvest,
)
from shoal.worker.recrawl.index import PageIndex

GONE = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class EarlierVisits:
    """What is known of a page from earlier runs; `harvest` is None if its step must run again."""

    visit: PageVisit | None = None
    harvest: Harvest | None = None

    @property
    def conditions(self) -> Mapping[str, str]:
        """The headers of a conditional request."""
        return self.visit.validators if self.visit and self.harvest else {}


class VisitStore:
    """Stores the visits of one scraper's pages for its next run, in the queue's notes.

    Only a run with `again` uses what pages yielded before.
    """

    def __init__(self, queue: SharedState, scraper: str, run_id: str, *, again: bool) -> None:
        self._run_id, self._again = run_id, again
        self._visits = QueueCacheStore(queue, topic=topic("pages", scraper))
        self._harvests = QueueCacheStore(queue, topic=topic("harvests", scraper))
        self._index = PageIndex(queue, scraper, run_id)

    async def read(self, task: Task) -> EarlierVisits:
        """Return what is known of a task's page."""
        key = key_of(task)
        visit_note, harvest_note = await asyncio.gather(self._visits.get(key), self._harvests.get(key))
        visit = read_visit(visit_note.value) if visit_note else None
        if visit is None or harvest_note is None or not self._again or visit.finding is PageChange.GONE:
            return EarlierVisits(visit)
        return EarlierVisits(visit, read_harvest(harvest_note.value, visit.body))

    def is_gone(self, past: EarlierVisits, response: Response) -> bool:
        """Return whether a page that existed before is gone."""
        return self._again and past.visit is not None and response.status in GONE

    def harvest_if_unchanged(self, past: EarlierVisits, response: Response) -> Harvest | None:
        """Return what the page yielded before if it is unchanged, else None."""
        if past.visit is None or past.harvest is None:
            return None
        if response.status == 304 or (response.status == 200 and digest(response.body) == past.visit.body):
            return past.harvest
        return None

    async def record(self, task: Task, past: EarlierVisits, response: Response, harvest: Harvest) -> None:
        """Store what a page yielded now."""
        if harvest is past.harvest and past.visit:
            await self._put(task, past, past.visit)
            return
        items = [canonical_json(item) for item in harvest.items]
        visit = PageVisit(
            run=self._run_id,
            finding=PageChange.NEW,
            validators=validators(response.headers),
            body=digest(response.body),
            items=digest_of(items),
            follow=digest_of(f"{one.step} {one.key or one.url}".encode() for one in harvest.follow),
        )
        await self._harvests.put(key_of(task), write_harvest(harvest, items, visit.body), ttl=VISIT_TTL)
        await self._put(task, past, visit)

    async def record_gone(self, task: Task, past: EarlierVisits) -> None:
        """Store that a page is gone."""
        await self._harvests.put(key_of(task), None, ttl=VISIT_TTL)
        await self._put(task, past, PageVisit(run=self._run_id, finding=PageChange.GONE))

    async def close(self) -> None:
        """Write what is not written yet."""
        for store in (self._harvests, self._visits, self._index):
            await store.close()

    async def _put(self, task: Task, past: EarlierVisits, now: PageVisit) -> None:
        visit = msgspec.structs.replace(now, run=self._run_id)
        visit = msgspec.structs.replace(visit, finding=compare_visits(past.visit, visit))
        self._index.add(task, visit.finding)
        await self._visits.put(key_of(task), encode(visit), ttl=VISIT_TTL)

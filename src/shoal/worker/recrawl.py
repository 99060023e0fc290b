"""Recrawls: what earlier visits of a page left, so that an unchanged page is not handled again."""

import asyncio
import logging
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.http import Response
from shoal.core.model import Note, Reject, Task
from shoal.core.revisits import PageDate, PageHistory, RevisitReason
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.rules import validators
from shoal.fetch.shared_state import SharedState
from shoal.queue.intake import decode, encode_item
from shoal.scrape.harvest import Harvest
from shoal.worker.page_changes import canonical_json, compare_items
from shoal.worker.queue_retry import QueueRetry
from shoal.worker.revisits import RevisitChooser, choose

log = logging.getLogger(__name__)
VISIT_TTL = timedelta(days=365)
MAX_HARVEST = 1 << 20  # bytes; a larger one is not stored
MAX_TOPIC = 200  # characters

_UNREADABLE = (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class PageChange(StrEnum):
    """How a page compares with its previous visit."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    NOT_DUE = "not_due"  # not fetched: its interval is not over
    OVER_BUDGET = "over_budget"  # not fetched: it is due, and left for the next run
    FAILED = "failed"  # its task became a dead letter; the next run fetches it


class StoredHarvest(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a page yielded when it had this body, stored apart: an unchanged page writes only its visit."""

    body: bytes
    items: list[bytes]  # as JSON
    rejects: list[Reject]
    follow: list[Task]


class PageVisit(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The last visit to a page: its run, what was found, and how to recognize the page."""

    run: str
    finding: PageChange
    validators: dict[str, str] = {}
    body: bytes = b""  # empty if what it yielded is not stored
    items: bytes = b""
    follow: bytes = b""
    history: PageHistory = PageHistory()

    def is_like(self, other: "PageVisit") -> bool:
        """Return whether two visits yielded the same: the same items, or without items the same links."""
        return self.items == other.items and (bool(self.items) or self.follow == other.follow)


encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # payloads are read-only views of a dict
_visits = msgspec.msgpack.Decoder(PageVisit)
_harvests = msgspec.msgpack.Decoder(StoredHarvest)


def compare_visits(before: PageVisit | None, now: PageVisit) -> PageChange:
    """Compare this visit of a page with the last one."""
    if before and before.run == now.run:
        return before.finding  # the task is repeated, and was judged before
    if now.finding is PageChange.GONE:
        return PageChange.GONE
    if before is None or before.finding is PageChange.GONE:
        return PageChange.NEW
    return PageChange.UNCHANGED if now.is_like(before) else PageChange.CHANGED


def topic(*words: str) -> str:
    """Return the note topic of these words; the hash of one that is too long for a queue."""
    text = ":".join(words)
    return text if len(text) <= MAX_TOPIC else f"{words[0]}:{digest(text.encode()).hex()}"


def key_of(task: Task) -> str:
    """Return the key of a page, the same in every run."""
    return blake2b(f"{task.step}\0{task.key or task.url}".encode(), digest_size=20).hexdigest()


def read_visit(data: bytes) -> PageVisit | None:
    """Read a visit; None if it is damaged."""
    try:
        return _visits.decode(data)
    except _UNREADABLE:
        return None


def read_harvest(data: bytes, body: bytes) -> Harvest | None:
    """Return what a page yielded when it had this body; None if that is damaged."""
    try:
        stored = _harvests.decode(data)
        items = [decode(item) for item in stored.items]
    except _UNREADABLE:
        return None
    if stored.body != body:
        return None
    return Harvest(items=items, rejects=stored.rejects, follow=stored.follow)


def digest(data: bytes) -> bytes:
    """Return the digest of bytes."""
    return blake2b(data, digest_size=16).digest()


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return the digest of several values, independent of their order; empty for none."""
    total = b""
    for part in parts:
        total = add_digest(total, part)
    return total


def add_digest(total: bytes, part: bytes) -> bytes:
    """Return the digest of several values and one more."""
    both = int.from_bytes(total) + int.from_bytes(digest(part))
    return (both % (1 << 128)).to_bytes(16)


CLOSE_TIMEOUT = timedelta(seconds=30)  # for pages that a queue without room has not taken
PAGES_PER_NOTE = 250
MAX_NOTE_BYTES = 32 << 20  # decompressed


class IndexedPage(msgspec.Struct, frozen=True, array_like=True):
    """A page that a run has seen."""

    task: Task
    finding: PageChange


_pages = msgspec.msgpack.Decoder(list[IndexedPage])


class PageIndex:
    """Writes pages to notes, and rewrites one note until it is full.

    `flush` is called before the outcomes of the pages are settled: a page without an entry would be missing
    from all later recrawls. What cannot be written is tried again with the next outcomes.
    """

    def __init__(self, queue: SharedState, scraper: str, run_id: str) -> None:
        self._queue, self._topic = queue, topic("pages", scraper, run_id)
        self._name, self._number = secrets.token_hex(6), 0
        self._pages: list[IndexedPage] = []  # of the note that is being filled
        self._is_written = True
        self._retry = QueueRetry("record pages for the next recrawl", CLOSE_TIMEOUT)

    def add(self, task: Task, finding: PageChange) -> None:
        """Add a page."""
        self._pages.append(IndexedPage(task, finding))
        self._is_written = False

    async def flush(self) -> float:
        """Write what was added; if that fails, return after how many seconds to try again."""
        if self._is_written:
            return 0.0
        key, size = f"{self._name}-{self._number}", len(self._pages)
        self._is_written = True
        try:
            note = {key: zlib.compress(encode(self._pages))}
            await self._queue.write_notes(self._topic, note, ttl=VISIT_TTL)
        except ShoalError as error:
            self._is_written = False
            return self._retry.next_wait(error)
        self._retry.on_success()
        if size >= PAGES_PER_NOTE:
            self._number += 1
            del self._pages[:size]
        return 0.0

    async def close(self) -> None:
        """Write what is not written yet; log how many pages cannot be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                while wait := await self.flush():
                    await asyncio.sleep(wait)
                return
        log.warning(
            "The next recrawl will lack up to %d pages of this worker, which could not be recorded",
            len(self._pages),
        )


class PagePlace(NamedTuple):
    """Where a page is in the index of a run; it stays there while the run goes on."""

    note: str
    position: int


async def read_index(
    queue: SharedState, scraper: str, run_id: str
) -> Iterator[tuple[PagePlace, IndexedPage]]:
    """Return every page that a run has seen, each once, in the order of their places."""
    return _iterate_once(await queue.notes(topic("pages", scraper, run_id)))


def _iterate_once(notes: dict[str, Note]) -> Iterator[tuple[PagePlace, IndexedPage]]:
    seen: set[int] = set()
    for name in sorted(notes):
        for position, page in enumerate(_decode_pages(notes.pop(name).value)):
            key = int(key_of(page.task)[:15], 16)  # half the memory of a string
            if key not in seen:
                seen.add(key)
                yield PagePlace(name, position), page


def _decode_pages(data: bytes) -> list[IndexedPage]:
    """Read the pages of a note; none if it is damaged."""
    try:
        return _pages.decode(zlib.decompressobj().decompress(data, MAX_NOTE_BYTES))
    except _UNREADABLE:
        return []


GONE = frozenset({404, 410})


class EarlierVisits(msgspec.Struct, frozen=True):
    """What is known of a page from earlier runs; `harvest` is None if its step must run again."""

    visit: PageVisit | None = None
    harvest: Harvest | None = None
    age: timedelta = timedelta(0)  # of the visit
    reason: RevisitReason = RevisitReason.NEW
    date: PageDate = PageDate.UNKNOWN

    @property
    def is_hit(self) -> bool:
        """Whether no request is sent, and what the page yielded before is used again."""
        return not self.reason.is_fetched

    @property
    def conditions(self) -> Mapping[str, str]:
        """The headers of a conditional request."""
        return self.visit.validators if self.visit and self.harvest else {}


class VisitStore:
    """Stores the visits of one scraper's pages for its next run, in the queue's notes.

    Only a run with `again` uses what pages yielded before. With a chooser, it does not fetch every page.
    """

    def __init__(
        self,
        queue: SharedState,
        scraper: str,
        run_id: str,
        *,
        again: bool,
        chooser: RevisitChooser | None = None,
    ) -> None:
        self._run_id, self._again, self._chooser = run_id, again, chooser
        self._visits = QueueCacheStore(queue, topic=topic("pages", scraper))
        self._harvests = QueueCacheStore(queue, topic=topic("harvests", scraper))
        self._differences = QueueCacheStore(queue, topic=topic("changes", scraper, run_id))
        self._index = PageIndex(queue, scraper, run_id)

    async def read(self, task: Task) -> EarlierVisits:
        """Return what is known of a task's page."""
        plan = await self._chooser.read_plan() if self._chooser else None
        stores = [self._visits, self._harvests] if self._again else [self._visits]
        note, *others = await asyncio.gather(*(store.get(key_of(task)) for store in stores))
        visit = read_visit(note.value) if note else None
        harvests = [read_harvest(one.value, visit.body) for one in others if one and visit]
        harvest = harvests[0] if harvests else None
        if plan and note and visit and harvest and visit.run != self._run_id:
            chosen = choose(task, key_of(task), visit.history, note.age, *plan)
            return EarlierVisits(visit, harvest, note.age, *chosen)
        return EarlierVisits(visit, harvest, note.age if note else timedelta(0))

    @property
    def chooses(self) -> bool:
        """Whether some pages are not fetched."""
        return self._chooser is not None

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
        items = [encode_item(item).encode() for item in harvest.items]
        visit = PageVisit(
            run=self._run_id,
            finding=PageChange.NEW,
            validators=validators(response.headers),
            body=digest(response.body),
            items=digest_of(map(canonical_json, harvest.items)),
            follow=digest_of(f"{one.step} {one.key or one.url}".encode() for one in harvest.follow),
        )
        if past.visit and compare_visits(past.visit, visit) is PageChange.CHANGED:
            await self._record_differences(task, past, past.visit, harvest)
        stored = StoredHarvest(body=visit.body, items=items, rejects=harvest.rejects, follow=harvest.follow)
        data = encode(stored)
        is_stored = len(data) <= MAX_HARVEST
        if not is_stored:
            visit = msgspec.structs.replace(visit, body=b"")
        await self._harvests.put(key_of(task), data if is_stored else None, ttl=VISIT_TTL)
        await self._put(task, past, visit)

    def record_reused(self, task: Task, past: EarlierVisits) -> None:
        """Store that this run has used what a page yielded before, without a request."""
        self._index.add(task, PageChange(past.reason))

    async def record_failed(self, task: Task) -> None:
        """Store that a page cannot be fetched now, if it could before: else later runs would lack it."""
        visit = (await self.read(task)).visit
        if visit and visit.finding is not PageChange.GONE:
            self._index.add(task, PageChange.FAILED)

    async def record_gone(self, task: Task, past: EarlierVisits) -> None:
        """Store that a page is gone."""
        await self._harvests.put(key_of(task), None, ttl=VISIT_TTL)
        await self._put(task, past, PageVisit(run=self._run_id, finding=PageChange.GONE))

    async def flush(self) -> None:
        """Write what is known of pages whose outcomes are about to be settled."""
        await asyncio.gather(*(store.flush() for store in (self._harvests, self._differences, self._visits)))
        await self._index.flush()

    async def close(self) -> None:
        """Write what is not written yet."""
        for store in (self._harvests, self._differences, self._visits, self._index):
            await store.close()

    async def _record_differences(
        self, task: Task, past: EarlierVisits, visit: PageVisit, harvest: Harvest
    ) -> None:
        """Store what has changed since the last visit, unless this run stored it before."""
        if visit.run == self._run_id:
            return
        before = past.harvest
        if before is None and (note := await self._harvests.get(key_of(task))):
            before = read_harvest(note.value, visit.body)
        if before:
            found = encode(compare_items(before.items, harvest.items))
            await self._differences.put(key_of(task), found, ttl=VISIT_TTL)

    async def _put(self, task: Task, past: EarlierVisits, now: PageVisit) -> None:
        visit = msgspec.structs.replace(now, run=self._run_id)
        visit = msgspec.structs.replace(visit, finding=compare_visits(past.visit, visit))
        history = past.visit.history if past.visit else visit.history
        if self._chooser and not (past.visit and past.visit.run == self._run_id):
            is_changed = visit.finding is PageChange.CHANGED
            history = history.after_visit(self._chooser.bounds, past.age, changed=is_changed, date=past.date)
        visit = msgspec.structs.replace(visit, history=history)
        self._index.add(task, visit.finding)
        await self._visits.put(key_of(task), encode(visit), ttl=VISIT_TTL)

"""Downloads: tasks whose response is written to a file, and the files that are stored already."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from hashlib import blake2b
from weakref import WeakValueDictionary

import msgspec

from shoal.core.errors import (
    BrokenAnswer,
    FetchError,
    HttpStatus,
    InvalidTask,
    NoSuchHost,
    OutOfScope,
    PrivateAddress,
    RobotsDenied,
    TooLarge,
    WrongFileType,
)
from shoal.core.failures import error_text
from shoal.core.http import BodySink, Headers, Request, Response, StoredFile
from shoal.core.model import Reject, Task
from shoal.core.secrets import hidden
from shoal.core.text import printable, shorten
from shoal.core.urls import host_of
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.cache.rules import validators
from shoal.fetch.shared_state import SharedState
from shoal.scrape.files import (
    DownloadPlan,
    FileRequest,
    extension_of,
    name_of,
    next_task,
    put_record,
    read_plan,
    render_path,
)
from shoal.scrape.harvest import Harvest
from shoal.scrape.items import validate_item
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.step import Step
from shoal.worker.counters import MISSING, OTHER, SIZE, TYPE, FileCounts
from shoal.worker.files.store import FileStore, Spool, storage_error
from shoal.worker.secrets import headers_towards

BUFFER = 256 << 10  # bytes that are written at a time
COMPLETE = (200, 203)  # statuses whose body is the whole file


class FileSink:
    """The file that one download is written to; nothing of it stays in memory."""

    def __init__(self, store: FileStore, types: Sequence[str], max_bytes: int) -> None:
        self._store, self._types, self._max_bytes = store, types, max_bytes
        self._buffer = bytearray()
        self.spool: Spool | None = None
        self.is_begun = False
        self.type = ""
        self.headers = Headers()

    def begin(self, status: int, headers: Headers) -> int | None:
        """Begin with an empty file and return its size limit; None for a response that is no file."""
        self.is_begun = status in COMPLETE
        if not self.is_begun:
            return None
        self.headers, self.type = headers, headers.type
        if not is_accepted(self.type, self._types):
            got = printable(shorten(self.type)) or "no type"
            raise WrongFileType(f"The host sent {got}; accepted are {', '.join(self._types)}")
        self._buffer.clear()
        if self.spool:
            self.spool.restart()
        return self._max_bytes

    async def write(self, data: bytes | memoryview) -> None:
        """Take the next chunk; raises StorageFailed."""
        self._buffer += data
        if len(self._buffer) >= BUFFER:
            await self.flush()

    async def flush(self) -> Spool:
        """Write what is in memory, and return the file."""
        # In a thread: a slow disk must not delay everything else.
        await asyncio.to_thread(self._flush)
        assert self.spool is not None
        return self.spool

    def _flush(self) -> None:
        if self.spool is None:
            self.spool = self._store.open_spool()
        try:
            self.spool.write(self._buffer)
        except OSError as error:
            raise storage_error(self._store.place, error) from error
        self._buffer = bytearray()

    async def discard(self) -> None:
        """Remove the file unless it was kept."""
        if self.spool:
            await asyncio.to_thread(self._store.discard, self.spool)


def is_accepted(kind: str, types: Sequence[str]) -> bool:
    """Return whether a file of a type is one of those that a download accepts."""
    return not types or any(fnmatchcase(kind, one) for one in types)


TOPIC = "downloaded files"
KNOWN_TTL = timedelta(days=365)
MAX_TOTAL = (
    512 << 20
)  # bytes of all records in a queue; the oldest are removed, and their files fetched again


class KnownFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored file, the run that stored it, and the headers by which its host tells if it has changed."""

    run: str
    path: str
    sha256: str
    size: int
    type: str
    validators: dict[str, str] = {}

    def as_file(self, url: str, status: int) -> StoredFile:
        """Return its record."""
        return StoredFile(
            url=url, path=self.path, sha256=self.sha256, size=self.size, type=self.type, status=status
        )


class KnownFiles:
    """Remembers files by their URL; a write that fails is dropped, and the file is fetched again.

    `realm` names what the runs share that may share files: the secrets that they send.
    """

    def __init__(self, queue: SharedState, place: str, realm: str = "") -> None:
        self._place, self._realm = place, realm
        self._store = QueueCacheStore(queue, max_bytes=MAX_TOTAL, topic=TOPIC)

    async def find(self, url: str, template: str, headers: Mapping[str, str]) -> KnownFile | None:
        """Return what is known of a file."""
        entry = await self._store.get(self._key(url, template, headers))
        if entry is None:
            return None
        try:
            return _decode(entry.value)
        except msgspec.MsgspecError:
            return None

    async def record(self, url: str, template: str, headers: Mapping[str, str], known: KnownFile) -> None:
        """Remember a file that is stored."""
        await self._store.put(self._key(url, template, headers), _encode(known), ttl=KNOWN_TTL)

    async def close(self) -> None:
        """Finish pending writes."""
        await self._store.close()

    def _key(self, url: str, template: str, headers: Mapping[str, str]) -> str:
        # Files in another folder, and with other names, are other files.
        text = msgspec.json.encode([self._place, self._realm, url, template, sorted(headers.items())])
        return blake2b(text, digest_size=20).hexdigest()


_decode = msgspec.msgpack.Decoder(KnownFile).decode
_encode = msgspec.msgpack.Encoder().encode


TIMEOUTS = 4  # a download may take as many times the timeout of a page
UNCHANGED = 304
GONE = frozenset({404, 410})

Fetch = Callable[[Mapping[str, str], FileSink], Awaitable[Response]]
RunStep = Callable[[Response], Awaitable[Harvest]]


class Downloads:
    """Stores the files of a run."""

    def __init__(self, store: FileStore, known: KnownFiles, run_id: str) -> None:
        self._store, self._known, self._run_id = store, known, run_id
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check_place(self) -> None:
        """Raise StorageFailed if no file can be stored."""
        await asyncio.to_thread(self._store.check)

    async def carry_out(
        self, task: Task, step: Step, counts: FileCounts, fetch: Fetch, run_step: RunStep
    ) -> Harvest:
        """Download the file of a task and return what follows from it.

        An item that waits for its files gets the reason for one that its host refuses; other errors, and all
        errors of a file without an item, are raised.
        """
        plan, url = read_plan(task), task.url
        assert url is not None, "handler() has checked it"
        request = msgspec.structs.replace(plan.files[0], url=url)  # which may have been edited
        try:
            # One after the other, so that the second finds what the first has stored.
            async with self._lock_of(request.url):
                file, response = await self._download(request, counts, fetch)
        except FetchError as error:
            reason = refusal_of(error)
            if reason is None:
                raise
            counts.refuse(reason)
            if plan.item is None:
                raise
            file = StoredFile(
                url=url, status=getattr(error, "status", None), error=error_text(hidden(_describe(error)))
            )
            response = None
        counts.ended += 1
        if plan.item is not None:
            return _go_on(plan, plan.item, file, task, step)
        if plan.runs_step:
            return await run_step(
                replace(response or Response(url=url, status=file.status or 200), file=file)
            )
        return Harvest(items=[file.as_json()])

    async def _download(
        self, request: FileRequest, counts: FileCounts, fetch: Fetch
    ) -> tuple[StoredFile, Response | None]:
        store = self._store
        known = await self._known.find(request.url, request.path, request.headers)
        if known and (
            not _may_be(known, request) or not await asyncio.to_thread(store.has, known.path, known.size)
        ):
            known = None
        if known and known.run == self._run_id:
            counts.known += 1
            return known.as_file(request.url, COMPLETE[0]), None
        sink = FileSink(store, request.types, request.max_bytes)
        try:
            response = await fetch(known.validators if known else {}, sink)
            if response.status == UNCHANGED and known:
                counts.unchanged += 1
                await self._record(request, msgspec.structs.replace(known, run=self._run_id))
                return known.as_file(request.url, UNCHANGED), response
            if not sink.is_begun:
                await _take_body(response, sink)
            spool = await sink.flush()
            known, is_new = await self._keep(spool, request, sink)
        finally:
            await sink.discard()
        if is_new:
            counts.stored += 1
            counts.bytes += known.size
        else:
            counts.known += 1
        await self._record(request, known)
        return known.as_file(request.url, response.status), response

    def _lock_of(self, url: str) -> asyncio.Lock:
        lock = self._locks.get(url)
        if lock is None:
            lock = self._locks[url] = asyncio.Lock()
        return lock

    async def _keep(self, spool: Spool, request: FileRequest, sink: FileSink) -> tuple[KnownFile, bool]:
        fields = {
            "sha256": spool.sha256,
            "ext": extension_of(request.url, sink.type),
            "name": name_of(request.url),
            "host": host_of(request.url),
            "run": self._run_id,
        }
        wanted = render_path(request.path, fields)
        path, is_new = await asyncio.to_thread(self._store.keep, spool, wanted, sink.type)
        known = KnownFile(
            run=self._run_id,
            path=path,
            sha256=spool.sha256,
            size=spool.size,
            type=sink.type,
            validators=validators(sink.headers),
        )
        return known, is_new

    async def _record(self, request: FileRequest, known: KnownFile) -> None:
        await self._known.record(request.url, request.path, request.headers, known)

    async def close(self) -> None:
        """Finish pending writes."""
        await self._known.close()


def as_download(request: Request, sink: BodySink, *, is_foreign: bool) -> Request:
    """Return a request whose response goes to a file."""
    # A file takes longer than a page, and no memory that a page would wait for.
    timeout = TIMEOUTS * request.timeout
    return replace(request, save=sink, on_bytes=None, timeout=timeout, is_foreign=is_foreign)


def headers_for(settings: ScraperSettings, task: Task) -> Mapping[str, str]:
    """Return the scraper's headers for a download. The scope does not apply: most images are elsewhere."""
    assert task.url is not None, "handler() has checked it"
    return headers_towards(settings, task.url, origin=read_plan(task).origin)


def _may_be(known: KnownFile, request: FileRequest) -> bool:
    """Return whether a download accepts a stored file; if not, it is requested again, and refused."""
    return known.size <= request.max_bytes and is_accepted(known.type, request.types)


def refusal_of(error: FetchError) -> str | None:
    """Return why a file will never be stored; None for an error that another attempt may not have."""
    match error:
        case WrongFileType():
            return TYPE
        case TooLarge():
            return SIZE
        case HttpStatus(status=status) if status in GONE:
            return MISSING
        case PrivateAddress():  # until the operator allows it
            return None
        case RobotsDenied() | NoSuchHost() | OutOfScope():
            return OTHER
        case _:
            return None


def _go_on(plan: DownloadPlan, before: str, file: StoredFile, task: Task, step: Step) -> Harvest:
    """Put the record of a file into its item, and return the task of its next file, or the item."""
    first, *left = plan.files
    try:
        item = put_record(before, first.at, file)
    except (LookupError, TypeError, msgspec.MsgspecError) as error:
        raise InvalidTask(task, "its payload has no place for the record of the file") from error
    if left:
        text = msgspec.json.encode(item).decode()
        following = DownloadPlan(files=left, item=text, origin=plan.origin, key=plan.key)
        return Harvest(follow=[next_task(following, task)])
    checked = validate_item(item, step.check)
    return Harvest(rejects=[checked]) if isinstance(checked, Reject) else Harvest(items=[checked])


async def _take_body(response: Response, sink: FileSink) -> None:
    """Store the body of a response that a hook has made; raises BrokenAnswer if it is no file."""
    limit = sink.begin(response.status, response.headers)
    if limit is None:
        raise BrokenAnswer(f"The host sent no file, but status {response.status}")
    if len(response.body) > limit:
        raise TooLarge(f"The file has {len(response.body):,} bytes; the limit is {limit:,}")
    await sink.write(response.body)


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

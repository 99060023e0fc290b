"""The pages of dead letters: kept in the queue for some days, so that a step can be run on them again."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from shoal.core.http import Headers, Response
from shoal.core.model import Lease
from shoal.core.redact import HIDDEN, MIN_SECRET, is_secret_header
from shoal.core.secrets import hidden
from shoal.fetch.cache.entry import COMPRESSION_LEVEL
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.shared_state import SharedState
from shoal.queue.contract import Queue

TOPIC = "failed pages"
MOVED_TTL = timedelta(days=7)  # of the page of a letter that was edited
MAX_FORGOTTEN = 500  # at a time
FORMAT_VERSION = 1
MAX_KEPT_BYTES = 1 << 20  # of a body, before compression
MAX_PER_KIND = 20  # pages that a worker keeps of each error class
MAX_KINDS = 50
MAX_TOTAL = 64 << 20  # bytes of all kept pages in a queue; the oldest are removed
_MARK = HIDDEN.encode()


class FailedPage(msgspec.Struct, frozen=True, array_like=True):
    """A kept page, without its secrets."""

    form: int
    url: str
    status: int
    fields: list[tuple[str, str]]
    size: int  # of the whole body, which may have been cut
    packed: bytes

    @property
    def body(self) -> bytes:
        """The kept part of the body; empty if it is not intact."""
        try:
            return zlib.decompressobj().decompress(self.packed, MAX_KEPT_BYTES)
        except zlib.error:
            return b""

    @property
    def is_cut(self) -> bool:
        """Whether only the first part of the body was kept."""
        return self.size > MAX_KEPT_BYTES

    @property
    def response(self) -> Response:
        """The page as a response, for `Page`."""
        return Response(url=self.url, status=self.status, headers=Headers(self.fields), body=self.body)


class FailedPageStore:
    """Keeps the pages of dead letters; a write that fails is dropped."""

    def __init__(self, queue: SharedState, run_id: str, ttl: timedelta, secrets: Iterable[str] = ()) -> None:
        self._run_id, self._ttl = run_id, ttl
        self._secrets = [secret.encode() for secret in secrets if len(secret) >= MIN_SECRET]
        self._store = QueueCacheStore(queue, max_bytes=MAX_TOTAL, topic=TOPIC)
        self._kept = Counter[str]()

    async def keep(self, lease: Lease, kind: str, response: Response) -> None:
        """Keep the page of a task that is buried, unless enough of this error class were kept."""
        if self._kept[kind] >= MAX_PER_KIND or (kind not in self._kept and len(self._kept) >= MAX_KINDS):
            return
        self._kept[kind] += 1
        fields = [
            (name, hidden(value)) for name, value in response.headers.fields if not is_secret_header(name)
        ]
        page = FailedPage(
            FORMAT_VERSION,
            hidden(response.url),
            response.status,
            fields,
            len(response.body),
            zlib.compress(self._hide_secrets(response.body)[:MAX_KEPT_BYTES], COMPRESSION_LEVEL),
        )
        await self._store.put(_key(self._run_id, lease.task_id), msgspec.msgpack.encode(page), ttl=self._ttl)

    async def close(self) -> None:
        """Finish pending writes."""
        await self._store.close()

    def _hide_secrets(self, body: bytes) -> bytes:
        # A little more than is kept: half a secret at the cut would not be recognised.
        body = body[: 2 * MAX_KEPT_BYTES]
        for secret in self._secrets:
            body = body.replace(secret, _MARK)
        # Every byte is a character of Latin-1, so that nothing else changes.
        text = body.decode("latin-1")
        safe = hidden(text)
        return body if safe == text else safe.replace(HIDDEN, _MARK.decode("latin-1")).encode("latin-1")


async def read_failed_page(queue: SharedState, run_id: str, letter_id: str) -> FailedPage | None:
    """Return the page of a dead letter; None if it was not kept, or for too long ago."""
    key = _key(run_id, letter_id)
    note = (await queue.notes(TOPIC, [key])).get(key)
    if note is None:
        return None
    try:
        page = msgspec.msgpack.decode(note.value, type=FailedPage)
    except msgspec.MsgspecError:
        return None
    return page if page.form == FORMAT_VERSION else None


async def move_failed_pages(queue: SharedState, run_id: str, ids: Mapping[str, str]) -> None:
    """Give the pages of dead letters to the letters that they became; `ids` are the new ones by the old."""
    keys = {_key(run_id, old): _key(run_id, new) for old, new in ids.items() if old != new}
    found = await queue.notes(TOPIC, list(keys)) if keys else {}
    if found:
        await queue.write_notes(TOPIC, {keys[key]: note.value for key, note in found.items()}, ttl=MOVED_TTL)
        await queue.write_notes(TOPIC, dict.fromkeys(found))


async def forget_failed_pages(queue: Queue, run_id: str) -> None:
    """Remove the pages of a run's dead letters, before the run is purged."""
    keys: list[str] = []
    async for letter in queue.dead(run_id):
        keys.append(_key(run_id, letter.id))
        if len(keys) == MAX_FORGOTTEN:
            await queue.write_notes(TOPIC, dict.fromkeys(keys))
            keys = []
    if keys:
        await queue.write_notes(TOPIC, dict.fromkeys(keys))


def _key(run_id: str, task_id: str) -> str:
    return f"{run_id} {task_id}"

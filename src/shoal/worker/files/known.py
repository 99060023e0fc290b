"""The files that were downloaded before, by URL, in the notes of the queue."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b

import msgspec

from shoal.core.http import StoredFile
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.shared_state import SharedState

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
    """Remembers files by their URL; a write that fails is dropped, and the file is fetched again."""

    def __init__(self, queue: SharedState, place: str) -> None:
        self._place = place
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
        text = msgspec.json.encode([self._place, url, template, sorted(headers.items())])
        return blake2b(text, digest_size=20).hexdigest()


_decode = msgspec.msgpack.Decoder(KnownFile).decode
_encode = msgspec.msgpack.Encoder().encode

"""What fetchers need of a queue: small state that the whole fleet shares."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from shoal.core.model import Note

SECRETS = "secrets"


class Notes(Protocol):
    """The verbs of a queue that keep notes; see its contract."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]: ...
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None: ...
    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None: ...
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int: ...


async def secret_of(queue: Notes, key: str) -> bytes:
    """Return the queue's own secret for a purpose, the same for all; it is made when it is first wanted."""
    await queue.swap_note(SECRETS, key, secrets.token_bytes(32), stamp=None)
    return (await queue.notes(SECRETS, [key]))[key].value

"""What fetchers need from a queue: small state that the whole fleet shares."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from shoal.core.model import Note

SECRETS = "secrets"


class SharedState(Protocol):
    """The methods of a queue that store notes; see its contract."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]: ...
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None: ...
    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None: ...
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int: ...


async def secret_of(queue: SharedState, key: str) -> bytes:
    """Return the queue's secret for a purpose, the same for all workers; created on first use."""
    await queue.swap_note(SECRETS, key, secrets.token_bytes(32), stamp=None)
    return (await queue.notes(SECRETS, [key]))[key].value

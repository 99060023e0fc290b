"""A queue behind a proxy that loses requests before the server hears of them, or answers after it obeyed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

from shoal.queue.postgres.queue import PostgresQueue
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.postgres_talk import PostgresTalk


class DeafTalk(PostgresTalk):
    """Drops the connection on which a marked statement comes, before the server has heard of it."""

    unheard: ClassVar[bytes | None] = None

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        if self.unheard is None:
            return super().asked(data, marker)
        if super().asked(data, self.unheard):
            type(self).unheard = None
            raise ConnectionResetError
        return False


@dataclass(frozen=True)
class Shaky:
    """A queue, and the trouble that its next call with a certain statement will have."""

    queue: PostgresQueue
    proxy: LossyProxy
    talk: type[DeafTalk]
    trouble: str

    @asynccontextmanager
    async def on(self, statement: str) -> AsyncIterator[PostgresQueue]:
        """Lose the next such statement, or its answer; fails when none came."""
        if self.trouble == "the request is lost":
            self.talk.unheard = statement.encode()
            yield self.queue
            assert self.talk.unheard is None, f"{statement} was never asked"
        else:
            times = 2 if self.trouble == "two answers are lost" else 1
            async with self.proxy.lose_next_reply(matching=statement.encode(), times=times):
                yield self.queue

"""A queue behind a proxy that loses requests before the server hears of them, or answers after it obeyed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.queue.contract import Queue
from tests.servers.lossy_proxy import LossyProxy

UNHEARD, LOST, LOST_TWICE = "the request is lost", "the answer is lost", "two answers are lost"
TROUBLES = [UNHEARD, LOST]


def deaf(talk: type[Any]) -> type[Any]:
    """Return a protocol reader that can drop the connection on which a marked request comes.

    It is a class of the test's own, for its orders are kept in the class.
    """

    class DeafTalk(talk):  # type: ignore[misc]
        unheard: ClassVar[bytes | None] = None

        def asked(self, data: bytes, marker: bytes | None) -> bool:
            if self.unheard is None:
                return bool(super().asked(data, marker))
            if super().asked(data, self.unheard):
                type(self).unheard = None
                raise ConnectionResetError
            return False

    return DeafTalk


@dataclass(frozen=True)
class Shaky:
    """A queue, and the trouble that its next call of a verb will have; `mark` tells it on the wire."""

    queue: Queue
    proxy: LossyProxy
    talk: type[Any]
    trouble: str
    mark: Callable[[str], str]

    @asynccontextmanager
    async def on(self, name: str) -> AsyncIterator[Any]:
        """Lose the next such call, or its answer; fails when none came."""
        marker = self.mark(name).encode()
        if self.trouble == UNHEARD:
            self.talk.unheard = marker
            yield self.queue
            assert self.talk.unheard is None, f"{name} was never called"
        else:
            times = 2 if self.trouble == LOST_TWICE else 1
            async with self.proxy.lose_next_reply(matching=marker, times=times):
                yield self.queue

"""A queue behind proxies that lose requests before a server hears of them, or answers after it obeyed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

from shoal.queue.rabbitmq.queue import RabbitQueue
from shoal.queue.rabbitmq.scripts import SCRIPTS
from tests.integration.redis.shaky import DeafTalk
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.rabbitmq_talk import RabbitTalk


class DeafRabbitTalk(RabbitTalk):
    """Drops the connection on which a marked request comes, before the broker has heard of it."""

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
    """A queue, and the trouble that its next call of a certain script, command or method will have."""

    queue: RabbitQueue
    proxy: LossyProxy
    talk: type[DeafTalk] | type[DeafRabbitTalk]
    trouble: str

    @asynccontextmanager
    async def on(self, name: str) -> AsyncIterator[RabbitQueue]:
        """Lose the next such call, or its answer; fails when none came."""
        marker = (SCRIPTS[name].sha if name in SCRIPTS else name).encode()
        if self.trouble == "the request is lost":
            self.talk.unheard = marker
            yield self.queue
            assert self.talk.unheard is None, f"{name} was never called"
        else:
            times = 2 if self.trouble == "two answers are lost" else 1
            async with self.proxy.lose_next_reply(matching=marker, times=times):
                yield self.queue

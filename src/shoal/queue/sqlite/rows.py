"""Tasks as the queries return them."""

import msgspec

from shoal.core.model import ZERO, Task
from shoal.queue.intake import read_payload
from shoal.queue.sqlite.moment import duration, optional_duration

NO_HOST = 0  # the host of tasks without a URL; it has no gate


class TaskRow(msgspec.Struct, array_like=True, frozen=True):
    """A task as a query returns it."""

    url: str | None
    step: str
    payload: str | None
    key: str | None
    partition: str
    priority: int
    ttl: int | None
    delay: int | None
    depth: int

    def task(self) -> Task:
        payload, ask = read_payload(self.payload)
        return Task(
            url=self.url,
            step=self.step,
            payload=payload,
            key=self.key,
            partition=self.partition,
            priority=self.priority,
            ttl=optional_duration(self.ttl),
            delay=ZERO if self.delay is None else duration(self.delay),
            depth=self.depth,
            ask=ask,
        )

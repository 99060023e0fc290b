"""The queues in the broker: their names, and how they are declared.

The scripts number the routes of bundles. A route leads to a queue:
  0 to 9     tasks of this priority that may start
  10 to 26   delayed tasks: the queue holds a bundle for 10 · 2^n seconds, then the broker moves it to `due`
  99         copies of dead letters, deleted after a day
"""

from collections.abc import Iterable
from typing import Any

import msgspec

FIRST_WAIT, DEAD_LETTERS = 10, 99
MIN_WAIT_SECONDS = 10
A_DAY_MS = 24 * 60 * 60 * 1000
# RabbitMQ 4.0 and later drop a message that was requeued twenty times, unless the queue sets another limit.
QUORUM: dict[str, Any] = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}


class QueueName(msgspec.Struct, frozen=True):
    """A queue, and the arguments it is declared with."""

    name: str
    kind: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the declaration."""
        if self.kind == "dead":
            return {**QUORUM, "x-message-ttl": A_DAY_MS}
        if not self.kind.startswith("wait"):
            return QUORUM
        return {
            **QUORUM,
            "x-message-ttl": int(self.kind.removeprefix("wait-").removesuffix("s")) * 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.dead_letter_target.name,
            # A message leaves this queue only when the next one has confirmed it.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }

    @property
    def dead_letter_target(self) -> "QueueName":
        """The queue that receives messages whose delay is over."""
        return QueueName(self.name.removesuffix(self.kind) + "due", "due")


class RunQueues:
    """The queues of one run."""

    def __init__(self, store: str, run_id: str, number: int) -> None:
        self.prefix = f"shoal.{store}.{run_id}.{number}."

    @property
    def due(self) -> QueueName:
        """The queue of bundles whose delay is over."""
        return self._named("due")

    @property
    def dead(self) -> QueueName:
        """The queue of copies of dead letters, and of messages that are no bundles."""
        return self._named("dead")

    def of(self, route: int) -> QueueName:
        """Return the queue that a bundle on this route is sent to."""
        if route == DEAD_LETTERS:
            return self.dead
        if route < FIRST_WAIT:
            return self._named(f"p{route}")
        return self._named(f"wait-{MIN_WAIT_SECONDS << route - FIRST_WAIT}s")

    def sources(self, route: int) -> list[QueueName]:
        """Return the queues that may hold a bundle sent on this route."""
        return [self.of(route)] if route < FIRST_WAIT else [self.due, self.of(route)]

    def every(self, routes: Iterable[int]) -> list[QueueName]:
        """Return all queues of a run that has used these routes."""
        return [*(self.of(route) for route in routes), self.due, self.dead]

    def _named(self, kind: str) -> QueueName:
        return QueueName(self.prefix + kind, kind)

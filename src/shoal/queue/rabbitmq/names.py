"""The queues in the broker: what they are called, and how they are declared.

A bundle's way, as the scripts number it, leads to a queue:
  0 to 9     tasks of this priority that may start
  10 to 26   a waiting room of 10 · 2^n seconds, from which the broker moves bundles to the queue `due`
  99         copies of dead letters, kept for a day
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

FIRST_WAIT, LETTERS = 10, 99
SHORTEST_WAIT_MS = 10_000
A_DAY_MS = 24 * 60 * 60 * 1000
# From 4.0 on a message that was put back twenty times is thrown away unless a queue says otherwise.
QUORUM: dict[str, Any] = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}


@dataclass(frozen=True, slots=True)
class QueueName:
    """A queue, and the arguments it is declared with."""

    name: str
    kind: str

    @property
    def arguments(self) -> dict[str, Any]:
        """What the broker is told of the queue."""
        if self.kind == "dead":
            return {**QUORUM, "x-message-ttl": A_DAY_MS}
        if not self.kind.startswith("wait"):
            return QUORUM
        return {
            **QUORUM,
            "x-message-ttl": int(self.kind.removeprefix("wait-").removesuffix("s")) * 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.behind.name,
            # A message leaves the waiting room only when the next queue has confirmed it.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }

    @property
    def behind(self) -> "QueueName":
        """The queue that messages go to when their time here is over."""
        return QueueName(self.name.removesuffix(self.kind) + "due", "due")


class RunQueues:
    """The queues of one run."""

    def __init__(self, store: str, run_id: str, number: int) -> None:
        self.prefix = f"shoal.{store}.{run_id}.{number}."

    @property
    def due(self) -> QueueName:
        """Where bundles go that have waited."""
        return self._named("due")

    @property
    def dead(self) -> QueueName:
        """Where copies of dead letters go, and messages that are no bundles."""
        return self._named("dead")

    def of(self, way: int) -> QueueName:
        """Return the queue that a way leads to."""
        if way == LETTERS:
            return self.dead
        if way < FIRST_WAIT:
            return self._named(f"p{way}")
        return self._named(f"wait-{SHORTEST_WAIT_MS // 1000 << way - FIRST_WAIT}s")

    def where(self, way: int) -> list[QueueName]:
        """Return the queues in which a bundle may be that was sent on a way."""
        return [self.of(way)] if way < FIRST_WAIT else [self.due, self.of(way)]

    def every(self, ways: Iterable[int]) -> list[QueueName]:
        """Return all queues that a run may have that has taken these ways."""
        return [*(self.of(way) for way in ways), self.due, self.dead]

    def _named(self, kind: str) -> QueueName:
        return QueueName(self.prefix + kind, kind)

"""Which servers a claim asks first: all of them, or one in its turn while each has more than is asked for."""

import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from shoal.queue.sharded.members import Member

SMALL = 8  # tasks of a claim for which every server is asked for all of them
KNOWN_FOR_SECONDS = 10.0  # how long a reply of a server says what it has
MAX_KNOWN = 1_000  # pairs of a server and the filters of claims
Filters = tuple[object, ...]  # the run, steps and partitions of a claim


@dataclass(slots=True)
class _LastReply:
    """What a server gave to the last claim that asked it."""

    at: float
    # Of all tasks; None if they had several, or there were fewer than asked for.
    priority: int | None
    asked: int  # a number that is higher than that of every call before


class ServerSupply:
    """Remembers what the servers gave to the claims of this process, and decides which of them to ask.

    Each call has a cost of its own. So while every server gives all that it is asked for, and tasks of the
    same priority, a claim asks only the one that was asked longest ago. Where one gives less, its hosts may
    wait for nothing but a claim: then every claim asks all servers.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._replies: dict[tuple[Filters, Member], _LastReply] = {}
        self._calls = 0

    def plan(self, filters: Filters, ready: Sequence[Member], limit: int) -> dict[Member, int]:
        """Return how many tasks to ask which servers for first."""
        if self.is_plentiful(filters, ready):
            turn = min(ready, key=lambda member: self._replies[filters, member].asked)
            self._calls += 1
            self._replies[filters, turn].asked = self._calls
            return {turn: limit}
        # A host gives the tasks of a burst in one call only, so a small claim is not split.
        return dict.fromkeys(ready, limit if limit <= SMALL else -(-limit // len(ready)))

    def is_plentiful(self, filters: Filters, ready: Collection[Member]) -> bool:
        """Return whether each of these servers lately gave all that it was asked for, of one priority."""
        replies = [self._replies.get((filters, member)) for member in ready if not member.is_away]
        since = self._now() - KNOWN_FOR_SECONDS
        priorities = {one.priority if one and one.at >= since else None for one in replies}
        return len(replies) == len(ready) > 1 and len(priorities) == 1 and None not in priorities

    def record(self, filters: Filters, member: Member, priorities: Collection[int], asked_for: int) -> None:
        """Record the priorities of the tasks that a server gave."""
        if len(self._replies) >= MAX_KNOWN:
            self._replies.clear()
        known = self._replies.get((filters, member))
        is_uniform = len(priorities) >= asked_for and len(set(priorities)) == 1
        self._replies[filters, member] = _LastReply(
            at=self._now(),
            priority=next(iter(priorities)) if is_uniform else None,
            # Processes that were started together must not all begin with the same server.
            asked=known.asked if known else -random.randrange(1 << 30),
        )

    def forget(self) -> None:
        """Ask all servers next time: this process has added tasks that may come before others."""
        self._replies.clear()

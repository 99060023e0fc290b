"""Which servers a claim asks first: all of them, or one in its turn while each has more than is asked for."""

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    gave_all: bool  # that it was asked for
    asked: int  # a number that is higher than that of every call before


@dataclass(frozen=True, slots=True)
class AskingOrder:
    """How many tasks a claim asks which servers for, and which others if that is too little."""

    first: Mapping[Member, int]
    then: Sequence[Member] = ()


class ServerSupply:
    """Remembers what the servers gave to the claims of this process, and decides which of them to ask.

    Each call has a cost of its own. So while every server gives all that it is asked for, a claim asks only
    the one that was asked longest ago. A server that gave less is asked by every claim, before the others:
    its hosts may wait for nothing but a claim. All are asked in a run with tasks of several priorities, since
    a host of any of them may just have become free for the highest.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._replies: dict[tuple[Filters, Member], _LastReply] = {}
        self._priorities: dict[object, set[int]] = {}  # that this process has seen, by run
        self._calls = 0

    def plan(self, filters: Filters, ready: Sequence[Member], limit: int) -> AskingOrder:
        """Return how many tasks to ask which servers for."""
        known = self._known(filters, ready)
        short = [member for member, reply in known.items() if not reply.gave_all]
        if not known or len(short) == len(ready) or (short and limit <= SMALL):
            # A host gives the tasks of a burst in one call only, so a small claim is not split.
            return AskingOrder(dict.fromkeys(ready, limit if limit <= SMALL else -(-limit // len(ready))))
        turns = sorted(ready, key=lambda member: known[member].asked)
        first = short or turns[:1]
        for member in first:
            self._calls += 1
            known[member].asked = self._calls
        return AskingOrder(
            dict.fromkeys(first, -(-limit // len(first))), [member for member in turns if member not in first]
        )

    def is_plentiful(self, filters: Filters, member: Member) -> bool:
        """Return whether a server lately gave all that it was asked for."""
        reply = self._replies.get((filters, member))
        return reply is not None and reply.gave_all and reply.at >= self._now() - KNOWN_FOR_SECONDS

    def _known(self, filters: Filters, ready: Sequence[Member]) -> dict[Member, _LastReply]:
        """Return the last replies of these servers; none if one is missing or priorities differ."""
        since = self._now() - KNOWN_FOR_SECONDS
        known = {
            member: reply
            for member in ready
            if (reply := self._replies.get((filters, member))) and reply.at >= since and not member.is_away
        }
        is_uniform = len(self._priorities.get(filters[0], ())) == 1
        return known if len(known) == len(ready) > 1 and is_uniform else {}

    def record(self, filters: Filters, member: Member, priorities: Collection[int], asked_for: int) -> None:
        """Record the priorities of the tasks that a server gave."""
        if len(self._replies) >= MAX_KNOWN:
            self._replies.clear()
        self.add_priorities(filters[0], priorities)
        known = self._replies.get((filters, member))
        self._replies[filters, member] = _LastReply(
            self._now(),
            len(priorities) >= asked_for,
            # Processes that were started together must not all begin with the same server.
            known.asked if known else -random.randrange(1 << 30),
        )

    def add_priorities(self, run_id: object, priorities: Iterable[int]) -> None:
        """Record priorities of tasks of a run."""
        if run_id not in self._priorities and len(self._priorities) >= MAX_KNOWN:
            self._priorities.clear()
            self._replies.clear()
        self._priorities.setdefault(run_id, set()).update(priorities)

    def forget(self) -> None:
        """Ask all servers next time: this process has added tasks."""
        self._replies.clear()

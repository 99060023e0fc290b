"""The workers that listen for a scraper: who is well, who has the least to do, and who is next."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from shoal.core.errors import InvalidSetting, QueueError
from shoal.core.model import SECOND
from shoal.core.values import hint
from shoal.fleet.caller import Caller, Lost, NotTaken
from shoal.queue.contract import Queue
from shoal.worker.calls import Health, Listed, read_listed, topic_of

HEALTH_INTERVAL = 2 * SECOND
HEALTH_TIMEOUT = 1.0  # seconds
LOST_AFTER = 3  # health checks in a row without an answer; what the worker has in hand goes to others


@dataclass(slots=True, eq=False)
class Member:
    """A listening worker as a balancer knows it."""

    listed: Listed
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    is_up: bool = False
    mine: int = 0  # calls of this balancer that it has in hand
    others: int = 0  # of others, when it was last asked
    failures: int = 0  # health checks in a row
    chosen: int = 0  # the turn at which it was last chosen
    trouble: str = ""  # why it is not up

    @property
    def load(self) -> int:
        """How many tasks it has in hand, as far as is known."""
        return self.mine + self.others

    def well(self, health: Health) -> None:
        """Take note that it answered."""
        self.is_up, self.failures = not health.stopping, 0
        self.others = max(0, health.in_hand - self.mine)
        if self.lost.is_set():
            self.lost = asyncio.Event()  # calls from now on are not lost with those of then

    def down(self, trouble: str) -> None:
        """Do not choose it until it answers again."""
        self.is_up, self.trouble = False, trouble

    def unwell(self, trouble: str) -> None:
        """Take note that it did not answer; when it never does, what it has in hand is lost."""
        self.down(trouble)
        self.failures += 1
        if self.failures >= LOST_AFTER:
            self.lost.set()


Strategy = Callable[[Sequence[Member]], Member]


def least_loaded(members: Sequence[Member]) -> Member:
    """Return the one with the least in hand; of equals the one that was not chosen for the longest time."""
    return min(members, key=lambda member: (member.load, member.chosen))


def round_robin(members: Sequence[Member]) -> Member:
    """Return the one that was not chosen for the longest time."""
    return min(members, key=lambda member: member.chosen)


STRATEGIES: dict[str, Strategy] = {
    "least_loaded": least_loaded,
    "round_robin": round_robin,
    "random": random.choice,
}


def read_strategy(name: str) -> Strategy:
    """Return a strategy by its name; raises InvalidSetting."""
    if name not in STRATEGIES:
        raise InvalidSetting("--strategy", f"{name!r} is not known. {hint(name, STRATEGIES)}")
    return STRATEGIES[name]


class Directory:
    """Knows the workers that listen for a scraper, and asks them how they are."""

    def __init__(
        self, queue: Queue, scraper: str, caller: Caller, *, strategy: str, interval: timedelta
    ) -> None:
        self._queue, self._topic, self._caller = queue, topic_of(scraper), caller
        self._choose, self._interval = read_strategy(strategy), interval.total_seconds()
        self._members: dict[str, Member] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_ready(self) -> bool:
        """Whether anybody can be chosen."""
        return any(member.is_up for member in self._members.values())

    @property
    def trouble(self) -> str:
        """Why nobody can be chosen."""
        troubles = {member.trouble or "it is stopping" for member in self._members.values()}
        return "; ".join(sorted(troubles)) or "all have stopped"

    def pick(self, but: Collection[Member] = ()) -> Member | None:
        """Return the worker that is to have the next call, or None while nobody else is well."""
        members = [member for member in self._members.values() if member.is_up and member not in but]
        if not members:
            return None
        member = self._choose(members)
        self._turn += 1
        member.chosen = self._turn
        return member

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(self._interval)
            with suppress(QueueError):
                await self.look()

    async def look(self) -> None:
        """Find out who listens, and how they are."""
        notes = await self._queue.notes(self._topic)
        for gone in self._members.keys() - notes.keys():
            self._members.pop(gone).lost.set()
        for name in notes.keys() - self._members.keys():
            with suppress(msgspec.DecodeError):
                self._members[name] = Member(read_listed(notes[name].value))
        await asyncio.gather(*map(self._check, self._members.values()))

    async def _check(self, member: Member) -> None:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT):
                member.well(await self._caller.health(member.listed))
        except (NotTaken, Lost) as error:
            member.unwell(str(error))
        except TimeoutError:
            member.unwell("it does not answer")

"""Which tasks a claim takes: decided here, without a database or a clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from shoal.core import pacing
from shoal.queue.sqlite.moment import duration
from shoal.queue.sqlite.rows import NO_HOST

PRIORITY_SHIFT = 52  # place = (9 - priority) << 52 | seq


class DueLane(msgspec.Struct, array_like=True, frozen=True):
    """A lane whose host may be asked now."""

    id: int
    section: int
    host: int
    priority: int
    pending: int
    host_delay: int  # the larger of the last start's and the host's own
    live: int  # leases of the host


class Waiting(msgspec.Struct, array_like=True, frozen=True):
    """A pending task at the front of its lane."""

    lane: int
    place: int
    attempt: int

    @property
    def band(self) -> int:
        """0 for the highest priority, 9 for the lowest."""
        return self.place >> PRIORITY_SHIFT


@dataclass(frozen=True, slots=True)
class Pick:
    """A task that is taken, and how many microseconds from now it starts."""

    task: Waiting
    lane: DueLane
    start_in: int


@dataclass(slots=True)
class Burst:
    """What one host may give in this claim."""

    gap: int
    room: int
    taken: int = 0


def bursts(lanes: Iterable[DueLane], run_delay: int, per_host: int, limit: int) -> dict[int, Burst]:
    """Return how much each host of these lanes may give."""
    found: dict[int, Burst] = {}
    for lane in lanes:
        if lane.host == NO_HOST:
            found[NO_HOST] = Burst(0, limit)
        elif lane.host not in found:
            gap = max(run_delay, lane.host_delay)
            found[lane.host] = Burst(gap, pacing.burst(duration(gap), per_host - lane.live, limit))
    return found


def enough(lanes: Sequence[DueLane], hosts: dict[int, Burst], limit: int) -> int:
    """Return how many of the first lanes hold `limit` tasks that may be taken."""
    given: dict[int, int] = {}
    total = 0
    for count, lane in enumerate(lanes, 1):
        before = given.get(lane.host, 0)
        given[lane.host] = min(hosts[lane.host].room, before + lane.pending)
        total += given[lane.host] - before
        if total >= limit:
            return count
    return len(lanes)


def choose(
    tasks: Iterable[Waiting], lanes: Sequence[DueLane], hosts: dict[int, Burst], limit: int, lowest: int = 0
) -> list[Pick]:
    """Return the tasks to take: the highest priority first, then in the order of their lanes.

    Nothing below the priority `lowest` is taken.
    """
    order = {lane.id: position for position, lane in enumerate(lanes)}
    picks: list[Pick] = []
    for task in sorted(tasks, key=lambda task: (task.band, order[task.lane], task.place)):
        if len(picks) == limit or task.band > 9 - lowest:
            break
        lane = lanes[order[task.lane]]
        host = hosts[lane.host]
        if host.taken < host.room:
            picks.append(Pick(task, lane, host.taken * host.gap))
            host.taken += 1
    return picks

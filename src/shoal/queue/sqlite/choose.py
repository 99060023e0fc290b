"""Which tasks a claim takes: decided here, without a database or a clock."""

from collections.abc import Iterable, Sequence

import msgspec

from shoal.core import pacing
from shoal.queue.sqlite.moment import duration
from shoal.queue.sqlite.rows import NO_HOST

LOWEST_BAND = 9
BAND_SHIFT = 52  # a task's place is (9 - priority) << 52 | seq


class DueLane(msgspec.Struct, array_like=True):
    """A lane whose host may be asked now."""

    id: int
    section: int
    host: int
    priority: int
    pending: int
    delay: int  # the host's own, or what it is slowed to
    live: int  # leases of the host
    slowdown: int


class Waiting(msgspec.Struct, array_like=True):
    """A pending task at the front of its lane."""

    position: int  # of its lane among those that were read
    place: int
    attempt: int


class Pick(msgspec.Struct):
    """A task that is taken, and how many microseconds from now it starts."""

    task: Waiting
    lane: DueLane
    start_in: int


class Burst(msgspec.Struct):
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
            # Between two starts of this claim: what was in force for the start before it does not count.
            gap = max(run_delay, lane.delay)
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
    tasks: Iterable[Waiting], lanes: Sequence[DueLane], hosts: dict[int, Burst], limit: int, lowest: int
) -> list[Pick]:
    """Return which tasks to take; they come with the highest priority first.

    Nothing below the priority `lowest` is taken.
    """
    end = (LOWEST_BAND - lowest + 1) << BAND_SHIFT
    picks: list[Pick] = []
    for task in tasks:
        if len(picks) == limit or task.place >= end:
            break
        lane = lanes[task.position]
        host = hosts[lane.host]
        if host.taken < host.room:
            picks.append(Pick(task, lane, host.taken * host.gap))
            host.taken += 1
    return picks

"""Decide which tasks a claim takes: pure functions without a database or a clock."""

from collections.abc import Iterable, Sequence

import msgspec

from shoal.core import pacing
from shoal.queue.sqlite.encoding import NO_HOST, duration

LOWEST_BAND = 9
BAND_SHIFT = 52  # a task's place is (9 - priority) << 52 | seq


class DueLane(msgspec.Struct, array_like=True):
    """A lane whose host may be requested now."""

    id: int
    section: int
    host: int
    priority: int
    pending: int
    delay: int  # the host's own delay, or the one it was slowed to
    live: int  # live leases of the host
    slowdown: int


class PendingTask(msgspec.Struct, array_like=True):
    """A pending task at the front of its lane."""

    position: int  # of its lane among those read
    place: int
    attempt: int


class Pick(msgspec.Struct):
    """A selected task, and the microseconds until it starts."""

    task: PendingTask
    lane: DueLane
    start_in: int


class Burst(msgspec.Struct):
    """The number of tasks that one host allows in this claim."""

    gap: int  # microseconds
    room: int
    taken: int = 0


def bursts(lanes: Iterable[DueLane], run_delay: int, per_host: int, limit: int) -> dict[int, Burst]:
    """Return the burst of each host of these lanes."""
    found: dict[int, Burst] = {}
    for lane in lanes:
        if lane.host == NO_HOST:
            found[NO_HOST] = Burst(0, limit)
        elif lane.host not in found:
            # Between two starts of this claim: the delay that applied to the start before it does not count.
            gap = max(run_delay, lane.delay)
            found[lane.host] = Burst(gap, pacing.burst(duration(gap), per_host - lane.live, limit))
    return found


def count_lanes_needed(lanes: Sequence[DueLane], hosts: dict[int, Burst], limit: int) -> int:
    """Return how many of the first lanes hold `limit` claimable tasks."""
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
    tasks: Iterable[PendingTask],
    lanes: Sequence[DueLane],
    hosts: dict[int, Burst],
    limit: int,
    lowest: int,
    lead: int = 0,
) -> list[Pick]:
    """Return the tasks to take from `tasks`, which are sorted by falling priority.

    No task below the priority `lowest` is taken, and none of a host starts sooner than in `lead`.
    """
    end = (LOWEST_BAND - lowest + 1) << BAND_SHIFT
    picks: list[Pick] = []
    for task in tasks:
        if len(picks) == limit or task.place >= end:
            break
        lane = lanes[task.position]
        host = hosts[lane.host]
        if host.taken < host.room:
            first = 0 if lane.host == NO_HOST else lead
            picks.append(Pick(task, lane, first + host.taken * host.gap))
            host.taken += 1
    return picks

"""The part of the judge that looks at hosts: how soon after each other they were asked, and by how many."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tools.chaos.history import History, Stall, Strike, Visit

ENOUGH = 0.95  # of the delay
KEPT = 0.96  # of it is what workers keep to, as far as the machine lets them: a later start is given up
# A worker that is stopped behind its look at the clock sends its request when it wakes.
WAKING, MOST_WOKEN = 0.3, 2  # seconds in which that is; requests of one worker
# What was handed out before a host complained may still be asked: a second ahead, and the way to the queue.
WARNED = 2.0
TOGETHER = 0.005  # seconds: a request that comes while the answer to another goes out is not at once with it


def hasty(history: History) -> Iterator[str]:
    """Yield gaps that are too short, and that the machine does not explain by standing still."""
    delay, excused = history.manners.delay, woken(history)
    for before, after in short_gaps(history):
        if not {before, after} & excused and not _stood_still(history.stalls, before, after, delay):
            share = (after.at - before.at) / delay
            where = near(history.strikes, after.at)
            yield f"host {after.host} was asked for page {after.page} after {share:.3f} of the delay{where}"


def short_gaps(history: History) -> Iterator[tuple[Visit, Visit]]:
    """Yield visits to one host that follow each other too soon."""
    for before, after in _neighbours(history):
        if after.at - before.at < ENOUGH * history.manners.delay:
            yield before, after


def woken(history: History) -> set[Visit]:
    """Return the requests that stopped workers had on their way to the network, and sent when they woke."""
    found: set[Visit] = set()
    early = {visit for pair in short_gaps(history) for visit in pair}
    for strike in history.strikes:
        begin = strike.let_go or strike.end
        right_after = [visit for visit in early if begin <= visit.at <= strike.end + WAKING]
        found.update(sorted(right_after, key=lambda visit: visit.at)[: MOST_WOKEN * strike.woken])
    return found


def shortest_gap(history: History) -> float | None:
    """Return the shortest gap of all, as a share of the delay."""
    gaps = [after.at - before.at for before, after in _neighbours(history)]
    return min(gaps) / history.manners.delay if gaps else None


def _neighbours(history: History) -> Iterator[tuple[Visit, Visit]]:
    for visits in by_host(history).values():
        yield from pairwise(visits)


def by_host(history: History) -> dict[int, list[Visit]]:
    """Return the visits of each host, in their order."""
    found: dict[int, list[Visit]] = defaultdict(list)
    for visit in sorted(history.visits, key=lambda visit: visit.at):
        found[visit.host].append(visit)
    return found


def _stood_still(stalls: Sequence[Stall], before: Visit, after: Visit, delay: float) -> bool:
    """Say whether the machine kept somebody waiting for as long as the gap lacks."""
    lacking = KEPT * delay - (after.at - before.at)
    first = bisect_left(stalls, before.at - delay, key=lambda stall: stall.at)
    late = 0.0
    for stall in stalls[first:]:
        if stall.at > after.at + delay:
            break
        late = max(late, stall.late)
    return late >= lacking


def crowded(history: History) -> Iterator[str]:
    """Yield moments in which a host had more requests at once than the scraper promised."""
    excused = woken(history)
    for host, visits in by_host(history).items():
        under_way: list[Visit] = []
        for visit in visits:
            under_way = [one for one in under_way if one.until - TOGETHER > visit.at]
            under_way.append(visit)
            counted = [one for one in under_way if one not in excused]
            if len(counted) > history.manners.per_host:
                where = near(history.strikes, visit.at)
                yield f"host {host} had {len(counted)} requests at once, the last page {visit.page}{where}"


def impatient(history: History) -> Iterator[str]:
    """Yield requests to a host that had asked for a pause, unless the news may have died with a worker."""
    wait = history.manners.retry_after
    for host, visits in by_host(history).items():
        for busy in (visit for visit in visits if visit.status == 429):
            if any(_may_have_lost(strike, busy) for strike in history.strikes):
                continue
            for visit in visits:
                if busy.until + WARNED < visit.at < busy.until + ENOUGH * wait:
                    waited = visit.at - busy.until
                    yield f"host {host} asked for {wait:g} s of rest, and was asked after {waited:.1f} s"


def near(strikes: Sequence[Strike], at: float) -> str:
    """Return which fault came last before a moment, for whoever looks for the cause."""
    before = [strike for strike in strikes if strike.begin <= at]
    if not before:
        return ""
    last = max(before, key=lambda strike: strike.begin)
    return f" ({at - last.begin:.1f} s after {last.kind} of {last.target})"


def _may_have_lost(strike: Strike, busy: Visit) -> bool:
    return strike.begin <= busy.until + WARNED and strike.end >= busy.at

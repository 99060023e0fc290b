"""The judge of histories: was each grant, each fate and each count allowed? Pure functions of a record.

After a failover, docs/explanation/guarantees.md allows this and no more: what the replica missed is lost,
and is done again. So each timeline is judged by itself. Over all of them: hosts keep their gaps, no task is
given one token twice, and a lease that was lost is refused.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from shoal.core.model import ZERO, Bury, Done, Fate, Release, Retry
from tools.histories.record import End, Entered, Extension, Holding, Record, Settlement
from tools.histories.timelines import PLAY, Timeline, forgotten, timelines

Rule = Callable[[Record], Iterator[str]]
EndRule = Callable[[Timeline], Iterator[str]]


def hasty(record: Record) -> Iterator[str]:
    """Yield used starts on one host that are closer together than both runs ask for."""
    for before, after, share in gaps(record):
        play = (PLAY + before.start_slack + after.start_slack) / _gap(record, before, after)
        if share < 1 - play:
            yield f"{after.host}: {_name(after)} starts {share:.3f} of the gap after {_name(before)}"


def gaps(record: Record) -> Iterator[tuple[Holding, Holding, float]]:
    """Yield used starts that follow each other on a host, and their distance as a share of what is due."""
    for holdings in _by_host(record).values():
        used = sorted((one for one in holdings if one.is_used), key=lambda one: one.start)
        for before, after in pairwise(used):
            if due := _gap(record, before, after):
                yield before, after, (after.start - before.start) / due


def _gap(record: Record, *holdings: Holding) -> timedelta:
    return max(record.runs[one.lease.run_id].settings.host_delay for one in holdings)


def crowded(record: Record) -> Iterator[str]:
    """Yield leases that were granted while a host had as many live ones as their run allows."""
    for host, holdings in _by_host(record).items():
        ordered = sorted(holdings, key=lambda one: one.earliest)
        for place, one in enumerate(ordered):
            most = record.runs[one.lease.run_id].settings.per_host
            live = [other for other in ordered[:place] if _is_live(other, one)]
            before = sum(
                other.lease.start_in < one.lease.start_in for other in _granted_together(holdings, one)
            )
            if len(live) + before >= most:
                names = ", ".join(map(_name, live))
                yield f"{host}: {_name(one)} was granted beside {len(live) + before} of {most}: {names}"


def _granted_together(holdings: list[Holding], one: Holding) -> list[Holding]:
    """Return the leases of the same claim that were live when this one was granted.

    RabbitMQ grants in several steps, and durations count from the first: what was granted first may be over.
    """
    together = [other for other in holdings if other.claim == one.claim]
    granted_in = one.lease.deadline_in - min(other.lease.deadline_in for other in together)
    return [other for other in together if other.lease.deadline_in > granted_in]


def _is_live(other: Holding, one: Holding) -> bool:
    is_before = other.latest + PLAY < one.earliest
    return other.claim != one.claim and is_before and other.live_until > one.latest + PLAY + other.slack


def shared(record: Record) -> Iterator[str]:
    """Yield tasks that were granted while another had a live lease of them, or with a token that fell."""
    for holdings in _by_task(record).values():
        for before, after in pairwise(holdings):
            if after.latest + PLAY + before.slack < before.live_until:
                early = (before.live_until - after.latest).total_seconds()
                yield f"{_name(after)} was granted {early:.3f} s before {_name(before)} was over"
            if after.latest + PLAY < before.earliest:
                yield f"{_name(after)} was granted before {_name(before)}, which has a lower token"
            if after.lease.token == before.lease.token:
                yield f"{_name(after)} was given twice"


def miscounted(record: Record) -> Iterator[str]:
    """Yield leases whose attempt is not one more than those before, unless the last was given back."""
    for holdings in _by_task(record).values():
        expected = 1
        for one in holdings:
            if one.lease.attempt != expected:
                yield f"{_name(one)} is at attempt {one.lease.attempt}, not {expected}"
            is_back = one.accepted and isinstance(one.accepted.outcome, Release)
            # An abandon that comes at the deadline may be too late to give the attempt back.
            doubt = one.abandoned and not one.accepted
            follower = _following(holdings, one)
            if doubt and follower:
                expected = min(max(follower.lease.attempt, expected), expected + 1)
            elif not is_back:
                expected += 1


def _following(holdings: list[Holding], one: Holding) -> Holding | None:
    return next((other for other in holdings if other.lease.token > one.lease.token), None)


def misjudged(record: Record) -> Iterator[str]:
    """Yield settlements whose fate is wrong: a live lease refused, a lost one or a second one accepted."""
    for holdings in _by_task(record).values():
        for one in holdings:
            follower = _following(holdings, one)
            accepted = [told for told in one.settlements if told.fate is Fate.ACCEPTED]
            if len(accepted) > 1:
                yield f"{_name(one)} was settled {len(accepted)} times"
            for told in accepted:
                if follower and follower.latest + PLAY < told.sent:
                    yield f"{_name(one)} was accepted after {_name(follower)} was granted"
                if one.abandoned and one.abandoned[1] < told.sent:
                    yield f"{_name(one)} was accepted after it was abandoned"
            if one.settlements and not accepted and not one.abandoned:
                last = max(told.answered for told in one.settlements)
                if last + PLAY + one.slack < one.live_until:
                    yield f"{_name(one)} was refused though it was live"


def ended_twice(record: Record) -> Iterator[str]:
    """Yield tasks that were granted again after they had ended."""
    for holdings in _by_task(record).values():
        for one in holdings:
            # What was abandoned is over either way: given back, or lost a moment before.
            if not one.abandoned and _ending(record, one) and _following(holdings, one):
                yield f"{_name(one)} ended its task, and it was granted again"


def _ending(record: Record, one: Holding) -> str:
    """Return how a lease ended its task for good, if it did."""
    is_last = one.lease.attempt >= record.runs[one.lease.run_id].settings.max_attempts
    match one.accepted.outcome if one.accepted else None:
        case Done():
            return "completed"
        case Bury():
            return "dead"
        case Retry():
            return "dead" if is_last else ""
        case Release():
            return ""
        case None:  # lost
            return "dead" if is_last else ""


def early(record: Record) -> Iterator[str]:
    """Yield tasks that were granted before their delay, or that of their last outcome, was over."""
    entered: dict[str, Entered] = {}
    for entry in sorted(record.entered, key=lambda one: one.sent + one.delay):
        entered.setdefault(entry.task_id, entry)
    for task_id, holdings in _by_task(record).items():
        first, known = holdings[0], entered.get(task_id)
        if known is not None and first.latest + PLAY < known.sent + known.delay:
            yield f"{_name(first)} was granted before its delay of {known.delay} was over"
        for before, after in pairwise(holdings):
            told = before.accepted
            wait = told.outcome.after if told and isinstance(told.outcome, Retry | Release) else ZERO
            if told and after.latest + PLAY < told.sent + wait:
                yield f"{_name(after)} was granted before the {wait} of {_name(before)} were over"


def restless(record: Record) -> Iterator[str]:
    """Yield leases that were granted while their host was paused."""
    for host, holdings in _by_host(record).items():
        for pauser in holdings:
            told = pauser.accepted
            pause = getattr(told.outcome, "pause_host", None) if told else None
            if not told or not pause:
                continue
            begin, end = told.answered + PLAY, told.sent + pause - PLAY
            for one in holdings:
                if begin < one.earliest and one.latest < end:
                    yield f"{host}: {_name(one)} was granted while {_name(pauser)} had paused the host"


def reissued(record: Record) -> Iterator[str]:
    """Yield leases of a task that have the same token, whichever servers granted them."""
    for holdings in _by_task(record).values():
        for token, times in Counter(one.lease.token for one in holdings).items():
            if times > 1:
                yield f"token {token} of task {holdings[0].lease.task_id[:8]} was given {times} times"


def revived(record: Record) -> Iterator[str]:
    """Yield leases that a failover has lost, and that the new primary accepts."""
    for one, failover in forgotten(record):
        told_of: list[Settlement | Extension] = [*one.settlements, *one.extensions]
        for told in told_of:
            if told.fate is Fate.ACCEPTED and told.sent > failover.moved:
                yield f"{_name(one)} was lost in a failover, and is accepted after it"


def lost(line: Timeline) -> Iterator[str]:
    """Yield tasks that have come to no end, or to another than their last lease says."""
    record = line.record
    if not record.is_drained:
        yield "the runs were not drained"
    by_task = _by_task(record)
    for run_id, end in record.ends.items():
        expected: dict[str, set[str]] = {"completed": set(), "dead": set()}
        ids = {one.task_id for one in record.entered if one.run_id == run_id}
        for task_id in ids:
            holdings = by_task.get(task_id)
            ending = _ending(record, holdings[-1]) if holdings else ""
            if not ending:
                yield f"task {task_id} of {run_id} has entered, and has come to no end"
            else:
                expected[ending].add(task_id)
        dead = [task_id for task_id in end.dead if task_id not in line.left_out]
        if set(dead) != expected["dead"] or len(dead) != len(expected["dead"]):
            yield f"{run_id} has {len(dead)} dead letters, not {len(expected['dead'])}"
        yield from _wrong_counts(line, run_id, end, {name: len(these) for name, these in expected.items()})


def _wrong_counts(line: Timeline, run_id: str, end: End, due: dict[str, int]) -> Iterator[str]:
    due |= {"tasks": sum(due.values())}
    counts = {"completed": end.stats.completed, "dead": end.stats.dead, "tasks": end.stats.tasks}
    # Of a task that is left out it is not known whether it ended in this way, or is there at all.
    more = len(line.left_out)
    if end.stats.remaining or any(not due[name] <= counts[name] <= due[name] + more for name in due):
        yield f"{run_id} counts {counts} and {end.stats.remaining} remaining, not {due} and up to {more} more"


def doubled(line: Timeline) -> Iterator[str]:
    """Yield items that are missing, stored twice, or that a refused Done brought."""
    record = line.record
    for run_id, end in record.ends.items():
        due = Counter(
            (one.lease.task_id, one.lease.token)
            for one in record.holdings
            if one.lease.run_id == run_id and one.accepted and isinstance(one.accepted.outcome, Done)
        )
        stored = Counter(end.items)
        judged = Counter(one for one in end.items if one[0] not in line.left_out)
        for task_id, token in judged - due:
            yield f"task {task_id} has an item of token {token} that it should not have"
        for task_id, token in due - judged:
            yield f"task {task_id} lacks the item of token {token}"
        if any(times > 1 for times in Counter(task_id for task_id, _ in stored).values()):
            yield f"{run_id} has two items of one task"
        if end.stats.items != stored.total():
            yield f"{run_id} counts {end.stats.items} items, and has {stored.total()}"


def told_wrong(record: Record) -> Iterator[str]:
    """Yield what was wrong as soon as it was told, such as the report of an enqueue."""
    yield from record.complaints


# What holds whatever is lost in a failover, on each timeline by itself, and for the account at the end.
ALWAYS: tuple[Rule, ...] = (hasty, reissued, revived, told_wrong)
EACH: tuple[Rule, ...] = (crowded, shared, miscounted, misjudged, ended_twice, early, restless)
AT_END: tuple[EndRule, ...] = (lost, doubled)
RULES = {rule.__name__ for rule in (*ALWAYS, *EACH, *AT_END)}


def judge(record: Record) -> dict[str, list[str]]:
    """Return what the history breaks, by rule."""
    found = {rule.__name__: list(rule(record)) for rule in ALWAYS}
    for line in timelines(record):
        for rule in EACH:
            found.setdefault(rule.__name__, []).extend(rule(line.record))
        for end_rule in AT_END if line.is_last else ():
            found[end_rule.__name__] = list(end_rule(line))
    return {name: complaints for name, complaints in found.items() if complaints}


@dataclass(frozen=True)
class Figures:
    """What a history amounts to."""

    tasks: int
    completed: int
    dead: int
    grants: int
    gaps: int
    smallest: float | None  # of the gaps, as a share of what is due
    refused: int
    lost_leases: int
    failovers: int = 0
    forgotten: int = 0  # leases that failovers have lost
    redone: int = 0  # tasks that had ended, and were granted again since a failover had lost that
    left_out: int = 0  # tasks that the last timeline was judged without


def figures(record: Record) -> Figures:
    """Count what happened, so that a history in which nothing did is not taken for a good one."""
    # Where a start had to be guessed, its gap is judged with allowance and shows nothing here.
    shares = [share for *pair, share in gaps(record) if all(not one.start_slack for one in pair)]
    refused = sum(told.fate is Fate.STALE for one in record.holdings for told in one.settlements)
    return Figures(
        tasks=len({one.task_id for one in record.entered}),
        completed=sum(end.stats.completed for end in record.ends.values()),
        dead=sum(end.stats.dead for end in record.ends.values()),
        grants=len(record.holdings),
        gaps=len(shares),
        smallest=min(shares, default=None),
        refused=refused,
        lost_leases=sum(one.accepted is None for one in record.holdings),
        failovers=len(record.failovers),
        forgotten=len({id(one) for one, _ in forgotten(record)}),
        redone=len(set(_granted_after_end(record))),
        left_out=len(list(timelines(record))[-1].left_out),
    )


def _granted_after_end(record: Record) -> Iterator[str]:
    for task_id, holdings in _by_task(record).items():
        if any(_ending(record, one) and one.accepted for one in holdings[:-1]):
            yield task_id


def _by_host(record: Record) -> dict[str, list[Holding]]:
    return _grouped((one.host, one) for one in record.holdings if one.host)


def _by_task(record: Record) -> dict[str, list[Holding]]:
    """Return the leases of each task, in the order of their tokens."""
    found = _grouped((one.lease.task_id, one) for one in record.holdings)
    return {task: sorted(held, key=lambda one: one.lease.token) for task, held in found.items()}


def _grouped(pairs: Iterable[tuple[str, Holding]]) -> dict[str, list[Holding]]:
    found: dict[str, list[Holding]] = defaultdict(list)
    for name, one in pairs:
        found[name].append(one)
    return found


def _name(one: Holding) -> str:
    return f"token {one.lease.token} of task {one.lease.task_id[:8]}"

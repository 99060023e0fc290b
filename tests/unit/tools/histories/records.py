"""Records of histories, made by hand: leases of one run, in seconds after noon."""

from datetime import UTC, datetime, timedelta

from shoal.core.model import Done, Fate, RunSettings, Stats, Task
from tests.unit.builders import make_lease, make_run
from tools.histories.judge import judge
from tools.histories.record import End, Entered, Holding, Record, Settlement

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
SETTINGS = RunSettings(host_delay=timedelta(seconds=1), per_host=2, max_attempts=2)
RUN = make_run(scraper="s", settings=SETTINGS, started_at=NOON)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def held(task, seconds, *, token=1, attempt=1, host="a.example", lease=10.0, claim=None):
    """Return a lease that begins so many seconds after noon."""
    told = make_lease(
        Task(url=f"https://{host}/{task}"),
        task_id=task,
        token=token,
        attempt=attempt,
        deadline_in=timedelta(seconds=lease),
    )
    number = hash((task, token)) if claim is None else claim
    return Holding(told, "w", host, number, *[at(seconds)] * 4)


def settled(one, outcome, seconds, *, fate=Fate.ACCEPTED, has_asked=None, **fields):
    told = outcome(one.lease, **fields)
    asked = told.asked if has_asked is None else has_asked
    one.settlements.append(Settlement(told, at(seconds), at(seconds + 0.01), fate, asked))
    return one


def done(task, seconds, **fields):
    return settled(held(task, seconds, **fields), Done, seconds + 0.5)


def record(*holdings, **changes):
    """Return a record of these leases, whose end is what they say."""
    last = {one.lease.task_id: one for one in sorted(holdings, key=lambda one: one.lease.token)}
    completed = [one for one in last.values() if one.accepted and isinstance(one.accepted.outcome, Done)]
    dead = [task for task, one in last.items() if one not in completed]
    end = End(
        Stats(completed=len(completed), dead=len(dead), items=len(completed)),
        [(one.lease.task_id, one.lease.token) for one in completed],
        dead,
    )
    told = {
        "runs": {"r": RUN},
        "holdings": list(holdings),
        "entered": [Entered("r", task, at(-100)) for task in last],
        "ends": {"r": end},
        "is_drained": True,
    }
    return Record(**(told | changes))


def broken(*holdings, **changes):
    """Return the rules that such a record breaks."""
    return list(judge(record(*holdings, **changes)))

"""Which pages of a run are due: the plan that is stored with the run, and the dates of sitemaps and feeds."""

from datetime import UTC, datetime, timedelta

import msgspec

from shoal.core.model import ZERO, Task
from shoal.core.revisits import PageDate, PageHistory, RevisitBounds, RevisitPlan, RevisitReason
from shoal.discover.sitemaps.parse import latest_time
from shoal.fetch.cache.queue_store import QueueCacheStore
from shoal.fetch.shared_state import SharedState

PLANS = "revisit plans"
PLAN_TTL = timedelta(days=365)

_decode = msgspec.msgpack.Decoder(RevisitPlan).decode
_encode = msgspec.msgpack.Encoder().encode


async def write_plan(queue: SharedState, run_id: str, plan: RevisitPlan | None) -> None:
    """Store the plan of a run; None removes it."""
    await queue.write_notes(PLANS, {run_id: _encode(plan) if plan else None}, ttl=PLAN_TTL)


async def read_plan(queue: SharedState, run_id: str) -> tuple[RevisitPlan, timedelta] | None:
    """Return the plan of a run, and how long ago it was stored; None for a run without `revisit`."""
    note = (await queue.notes(PLANS, [run_id])).get(run_id)
    return (_decode(note.value), note.age) if note else None


def date_of(task: Task, age: timedelta, now: datetime, *, has_sitemaps: bool) -> PageDate:
    """Return what the date of a task's page says about its last fetch, which is as old as `age`.

    An older date counts only in a sitemap that the run has read: a feed has its newest entries only, and the
    task may be one of an earlier run.
    """
    for name in ("lastmod", "updated", "published"):
        text = task.payload.get(name)
        if isinstance(text, str) and (moment := latest_time(text)):
            if moment > now - age:
                return PageDate.NEWER
            return PageDate.OLDER if name == "lastmod" and has_sitemaps else PageDate.UNKNOWN
    return PageDate.UNKNOWN


class RevisitChooser:
    """Decides for the workers of one run which pages they fetch.

    Ages are those at the start of the run, by the store's clock: all workers decide alike, however long it
    takes.
    """

    def __init__(self, queue: SharedState, run_id: str, bounds: RevisitBounds) -> None:
        self.bounds = bounds
        self._plans, self._run_id = QueueCacheStore(queue, topic=PLANS), run_id

    async def read_plan(self) -> tuple[RevisitPlan, timedelta] | None:
        """Return the plan of the run and how long ago it was begun; None if it fetches all, as on demand.

        Read it before the visit of a page, whose age at the start is then no less than in the plan.
        """
        stored = await self._plans.get(self._run_id)
        if stored is None:
            return None
        plan = _decode(stored.value)
        return plan, stored.age + plan.took


def choose(
    task: Task, key: str, history: PageHistory, age: timedelta, plan: RevisitPlan, began: timedelta
) -> tuple[RevisitReason, PageDate]:
    """Return whether and why a page is fetched by a plan that was begun then, and what its date says."""
    date = date_of(task, age, datetime.now(UTC), has_sitemaps=plan.has_sitemaps)
    reason, _ = plan.judge(key, history, max(ZERO, age - began), date)
    return reason, date

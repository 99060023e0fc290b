"""What stops a run: a step whose last tasks nearly all fail alike or yield no items, or hosts not allowed."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable

from shoal.core.errors import InvalidInput, OutOfScope, PrivateAddress, QueueError
from shoal.core.failures import error_of
from shoal.core.model import Bury, Counts, Done, Fate, Outcome, RunState
from shoal.core.tasks import first
from shoal.fetch.egress import Egress
from shoal.queue.contract import Queue
from shoal.scrape.settings.readers import StopWhen
from shoal.worker.run_settings import options_for

SHARE = 0.95  # of the last tasks
OWN_TASKS, MIN_OWN_TASKS = 20, 5  # of a step, by which a worker suspects that it fails
CHECK_INTERVAL_SECONDS = 0.1
# What says nothing about the scraper or its site: a seed is missing, or matches the setting `skip`.
EXPECTED = ("Skipped: ", *(f"HttpStatus: The host returned status {status}" for status in (404, 410)))

NO_ITEMS = "no items"  # of a task that is completed, of a step that had some

log = logging.getLogger(__name__)


class FailureBrake:
    """Watches the outcomes of one worker, and counts those of all workers once its own nearly all fail alike.

    `on_end` is called after the run was ended.
    """

    def __init__(self, queue: Queue, run_id: str, limit: StopWhen | None, on_end: Callable[[], None]) -> None:
        self._queue, self._run_id, self.limit, self._on_end = queue, run_id, limit, on_end
        self._with_items: set[str] = set()  # steps
        self._own: dict[
            str, deque[str]
        ] = {}  # by step: how its last tasks failed; empty for one that did not
        self._since: dict[str, Counts] = {}  # by step that is suspected: the counts of the run at that time
        self._suspected = asyncio.Event()

    def count(self, outcome: Outcome, fate: Fate) -> None:
        """Count a settled outcome."""
        if fate is Fate.STALE or not isinstance(outcome, Done | Bury):
            return
        step = outcome.lease.task.step
        if isinstance(outcome, Done):
            has_items = bool(outcome.items or outcome.rejects)
            if has_items:
                self._with_items.add(step)
            is_empty = step in self._with_items and not has_items and self.limit and self.limit.empty
            error = NO_ITEMS if is_empty else ""
        else:
            error = error_of(str(outcome.error))
        if error.startswith(EXPECTED):
            return
        self._own.setdefault(step, deque(maxlen=OWN_TASKS)).append(error.partition(":")[0])
        if self._kind_of(step):
            self._suspected.set()
        else:
            self._since.pop(step, None)

    async def run(self) -> None:
        """Check whenever a step is suspected, until cancelled."""
        while True:
            await self._suspected.wait()
            self._suspected.clear()
            try:
                await self._check()
            except QueueError:
                self._suspected.set()
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)

    async def _check(self) -> None:
        if self.limit is None:
            return
        stats = await self._queue.stats(self._run_id)
        for step, now in stats.steps.items():
            kind = self._kind_of(step)
            if kind is None:
                continue
            before = self._since.setdefault(step, now)
            dead = now.dead - before.dead
            ended = now.completed - before.completed + dead
            failed = ended - (now.items - before.items) if kind == NO_ITEMS else dead
            if stats.remaining and ended >= self.limit.last and failed >= SHARE * ended:
                await self._end(step, kind)
                return

    async def _end(self, step: str, kind: str) -> None:
        what = "yielded no items" if kind == NO_ITEMS else f"became dead letters with {kind}"
        reason = (
            f"stop_when={self.limit}: nearly all of the last tasks of step {step!r} {what} "
            "(--set stop_when=off to go on regardless)"
        )
        if (await self._queue.run(self._run_id)).state is RunState.RUNNING:  # else another worker has said so
            await self._queue.finish(self._run_id, reason)
            log.error("The run was stopped at %s", reason)
        self._since.clear()
        self._on_end()

    def _kind_of(self, step: str) -> str | None:
        """Return the error class with which nearly all of this worker's last tasks of a step failed."""
        own = self._own.get(step, ())
        if len(own) < MIN_OWN_TASKS:
            return None
        kind, count = Counter(own).most_common(1)[0]
        return kind if kind and count >= SHARE * len(own) else None


MAX_HOSTS = 1_000  # of a run, which are checked
MAX_SHOWN = 3


class PrivateHostCheck:
    """Decides once, when a task at a private host is refused, whether the run has any that are not."""

    def __init__(self, queue: Queue, run_id: str, egress: Egress) -> None:
        self._queue, self._run_id, self._egress = queue, run_id, egress
        self._has_others = False

    async def check(self, host: str) -> None:
        """Raise InvalidInput to stop the run if all its tasks are refused, as that of this host."""
        hosts = [] if self._has_others else await self._refused_hosts(host)
        self._has_others = not hosts
        if not hosts:
            return
        shown = hosts[:MAX_SHOWN]
        raise InvalidInput(
            f"All tasks that are left are at private hosts ({', '.join(shown)}), "
            "which are not fetched unless you allow it; they stay queued. "
            f"Resume the run with: {' '.join(options_for(shown))}"
        )

    async def _refused_hosts(self, known: str) -> list[str]:
        """Return the hosts of the run if the names of all tell that they are refused, as the known one is."""
        refused = {known: Counts()}
        async for host in first(self._queue.hosts(self._run_id), MAX_HOSTS):
            if host.host != known and not self._is_refused(host.host):
                return []
            refused[host.host] = host.counts
        stats = await self._queue.stats(self._run_id)
        return [] if stats.tasks > sum(one.tasks for one in refused.values()) else list(refused)

    def _is_refused(self, host: str) -> bool:
        try:
            self._egress.admit_unresolved(f"http://{host}/")
        except PrivateAddress:
            return True
        except OutOfScope:
            pass  # its tasks fail for another reason, whatever is allowed
        return False

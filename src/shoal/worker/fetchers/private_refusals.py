"""Tasks at private hosts that are not allowed: a run that has no others lacks an option, and is stopped.

The outcomes of such tasks are held back until something else of the run could be fetched, or nothing is left.
"""

from contextlib import suppress

from shoal.core.errors import InvalidInput, QueueError
from shoal.core.model import Bury, Done, Lease, Outcome
from shoal.queue.contract import Queue
from shoal.worker.run_settings import note_private_hosts, options_for

MAX_HELD = 20  # tasks
MAX_SHOWN = 3  # hosts


class PrivateRefusals:
    """Decides whether refused tasks are buried, or whether the run is stopped."""

    def __init__(self, queue: Queue, run_id: str) -> None:
        self._queue, self._run_id = queue, run_id
        self._hosts: dict[str, None] = {}
        self._refused: set[tuple[str, int]] = set()
        self._held: list[Bury] = []
        self._is_decided = False

    def add(self, lease: Lease, host: str) -> None:
        """Note that the host of a task is private and not allowed."""
        if not self._is_decided:
            self._hosts[host] = None
            self._refused.add((lease.task_id, lease.token))

    def hold(self, outcome: Outcome) -> bool:
        """Return whether an outcome is held back; one that ended a task by a request decides against it."""
        if self._is_decided:
            return False
        if isinstance(outcome, Bury) and (outcome.lease.task_id, outcome.lease.token) in self._refused:
            self._held.append(outcome)
            return True
        # Not one that returns to the queue: it may be a task at a private host whose start came too late, or
        # whose name could not be resolved. It would let the refused ones be buried.
        self._is_decided = outcome.asked and isinstance(outcome, Done | Bury)
        return False

    async def take_due(self, *, is_idle: bool) -> list[Bury]:
        """Return the outcomes that were held back, if it is time to settle them.

        The worker is idle if it has nothing else to do. Raises InvalidInput to stop the run.
        """
        if self._held and (is_idle or self._is_decided or len(self._held) >= MAX_HELD):
            with suppress(QueueError):
                return await self._decide()
        return []

    async def _decide(self) -> list[Bury]:
        if not self._is_decided and await self._is_all_refused():
            await note_private_hosts(self._queue, self._run_id, self._hosts)
            shown = list(self._hosts)[:MAX_SHOWN]
            raise InvalidInput(
                f"All tasks that are left are at private hosts ({', '.join(shown)}), "
                "which are not fetched unless you allow it; they stay queued. "
                f"Resume the run with: {' '.join(options_for(shown))}"
            )
        self._is_decided = True
        held, self._held = self._held, []
        self._refused.clear()
        return held

    async def _is_all_refused(self) -> bool:
        """Return whether no other host has tasks left, nor had any; or a refused one was fetched before."""
        stats = await self._queue.stats(self._run_id)
        refused = [host.counts async for host in self._queue.hosts(self._run_id) if host.host in self._hosts]
        if stats.remaining > sum(counts.remaining for counts in refused):
            return False
        had_others = stats.tasks > sum(counts.tasks for counts in refused)
        return not had_others or any(counts.completed for counts in refused)

"""Tasks at private hosts that are not allowed: a run that has no others lacks an option, and is stopped."""

from collections.abc import Collection

from shoal.core.errors import InvalidInput, OutOfScope, PrivateAddress
from shoal.core.tasks import first
from shoal.fetch.egress import Egress
from shoal.queue.contract import Queue
from shoal.worker.run_settings import note_private_hosts, options_for

MAX_HOSTS = 1_000  # of a run that are looked at
MAX_SHOWN = 3


async def refused_by_name(queue: Queue, run_id: str, egress: Egress) -> list[str]:
    """Return the hosts of a run that are private and not allowed, as far as their names tell."""
    refused = []
    async for host in first(queue.hosts(run_id), MAX_HOSTS):
        try:
            egress.admit_unresolved(f"http://{host.host}/")
        except PrivateAddress:
            refused.append(host.host)
        except OutOfScope:
            pass  # no URL of this host is fetched, whatever is allowed
    return refused


class PrivateHostCheck:
    """Decides once, when a task is refused, whether the run has any that are not."""

    def __init__(self, queue: Queue, run_id: str, egress: Egress) -> None:
        self._queue, self._run_id, self._egress = queue, run_id, egress
        self._has_others = False

    async def check(self, host: str) -> None:
        """Raise InvalidInput to stop the run if all its tasks are refused, as that of this host."""
        if self._has_others:
            return
        hosts = dict.fromkeys([host, *await refused_by_name(self._queue, self._run_id, self._egress)])
        self._has_others = not await self._are_all(hosts)
        if self._has_others:
            return
        await note_private_hosts(self._queue, self._run_id, hosts)
        shown = list(hosts)[:MAX_SHOWN]
        raise InvalidInput(
            f"All tasks that are left are at private hosts ({', '.join(shown)}), "
            "which are not fetched unless you allow it; they stay queued. "
            f"Resume the run with: {' '.join(options_for(shown))}"
        )

    async def _are_all(self, hosts: Collection[str]) -> bool:
        """Return whether no other host has tasks left, nor had any; or one of these was fetched before."""
        stats = await self._queue.stats(self._run_id)
        refused = [host.counts async for host in self._queue.hosts(self._run_id) if host.host in hosts]
        if stats.remaining > sum(counts.remaining for counts in refused):
            return False
        had_others = stats.tasks > sum(counts.tasks for counts in refused)
        return not had_others or any(counts.completed for counts in refused)

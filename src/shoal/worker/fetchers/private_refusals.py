"""Tasks at private hosts that are not allowed: a run that has no others lacks an option, and is stopped."""

from shoal.core.errors import InvalidInput, OutOfScope, PrivateAddress
from shoal.core.model import Counts
from shoal.core.tasks import first
from shoal.fetch.egress import Egress
from shoal.queue.contract import Queue
from shoal.worker.run_settings import options_for

MAX_HOSTS = 1_000  # of a run that are looked at
MAX_SHOWN = 3


class PrivateHostCheck:
    """Decides once, when a task is refused, whether the run has any that are not."""

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

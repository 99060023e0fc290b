"""Tasks at private hosts that are not allowed: a run that has no others lacks an option, and is stopped."""

from shoal.core.errors import DnsFailed, InvalidInput, OutOfScope, PrivateAddress
from shoal.core.model import Counts
from shoal.core.tasks import first
from shoal.fetch.egress import Egress
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.run_settings import note_private_hosts, options_for

MAX_HOSTS = 1_000  # of a run that are looked at
MAX_SHOWN = 3


class PrivateHostCheck:
    """Decides once, when a task is refused, whether the run has any that are not."""

    def __init__(self, queue: Queue, run_id: str, egress: Egress, settings: ScraperSettings) -> None:
        self._queue, self._run_id, self._egress, self._settings = queue, run_id, egress, settings
        self._has_others = False

    async def check(self, host: str) -> None:
        """Raise InvalidInput to stop the run if all its tasks are refused, as that of this host."""
        hosts = [] if self._has_others else await self._refused_hosts(host)
        self._has_others = not hosts
        if not hosts:
            return
        await note_private_hosts(self._queue, self._run_id, hosts)
        shown = hosts[:MAX_SHOWN]
        raise InvalidInput(
            f"All tasks that are left are at private hosts ({', '.join(shown)}), "
            "which are not fetched unless you allow it; they stay queued. "
            f"Resume the run with: {' '.join(options_for(shown))}"
        )

    async def _refused_hosts(self, known: str) -> list[str]:
        """Return the hosts that have tasks left if all of them are refused, as the known one; else none.

        None either if other hosts had tasks, unless one of the refused was fetched before.
        """
        refused = {known: Counts()}
        async for host in first(self._queue.hosts(self._run_id), MAX_HOSTS):
            if not host.counts.remaining:
                continue
            if host.host != known and not await self._is_refused(host.host):
                return []
            refused[host.host] = host.counts
        stats, counts = await self._queue.stats(self._run_id), refused.values()
        if stats.remaining > sum(one.remaining for one in counts):
            return []
        had_others = stats.tasks > sum(one.tasks for one in counts)
        return [] if had_others and not any(one.completed for one in counts) else list(refused)

    async def _is_refused(self, host: str) -> bool:
        url, settings = f"http://{host}/", self._settings
        proxies = settings.sites.find(url).proxies
        try:
            if settings.tor or (settings.proxies if proxies is None else proxies):
                self._egress.admit_unresolved(url)  # to resolve the name here would reveal it
            else:
                await self._egress.admit(url)
        except PrivateAddress:
            return True
        except (OutOfScope, DnsFailed):
            pass  # its tasks fail for another reason, whatever is allowed
        return False

"""The pace of hosts, which the fleet keeps together: the engine sends a request when the store lets it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeGuard

from scrapy import Request
from scrapy.http import Response as ScrapyResponse

from shoal.core.errors import QueueError
from shoal.core.http import Headers, Response
from shoal.core.model import ZERO, RunSettings
from shoal.core.pacing import MAX_PAUSE
from shoal.core.tasks import exact_time
from shoal.core.urls import canonical_with_host, host_of
from shoal.fetch.status import retry_after
from shoal.queue.contract import Queue
from shoal.scrape.settings.sites import SiteTable
from shoal.scrapy.results import TaskResults, current_results
from shoal.worker.turns import HostTurns

EARLY = 0.95  # of a gap: timers are not exact
# Rounds of the event loop until a request has been written: other callbacks may delay each of them.
SEND_ROUNDS = 6
REQUEST_TIMEOUT = timedelta(seconds=180)  # Scrapy's default
COMPLAINTS = (429, 503)

log = logging.getLogger(__name__)


class HostPacer:
    """Lets each request wait for its host; the own request of a task has a turn and a slot from its claim."""

    def __init__(self, queue: Queue, settings: RunSettings, sites: SiteTable) -> None:
        self._queue, self._sites = queue, sites
        self.read_settings(settings)
        self._turns = HostTurns(queue)
        self._sent: dict[str, float] = {}  # when this worker has sent the last request to a host
        self._with_request: set[TaskResults] = set()  # tasks whose own request is being sent

    def read_settings(self, settings: RunSettings) -> None:
        """Keep to the delay and the limit of a run; again when they have changed."""
        self._gap, self._per_host = settings.host_delay, settings.per_host

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Wait until a request may be sent, and be one of the host's until its end; raises NotNow."""
        if request.url[:4].lower() != "http":
            yield
            return
        url, host = canonical_with_host(request.url)
        gap, results = max(self._gap, self._sites.find(url).delay or ZERO), current_results()
        async with AsyncExitStack() as held:
            with results.waiting() if results else nullcontext():
                if is_own := self._is_own_request(results, host):
                    self._with_request.add(results)
                    held.callback(self._with_request.discard, results)
                else:
                    slot = self._turns.slot(host, self._per_host, REQUEST_TIMEOUT)
                    await held.enter_async_context(slot)
                if gap:
                    await self._wait(host, gap, results if is_own else None)
            yield

    def _is_own_request(self, results: TaskResults | None, host: str) -> TypeGuard[TaskResults]:
        """Tell whether this is the request of the task itself, which has a turn and a slot from its claim."""
        own = results.request if results else None
        return own is not None and host_of(own.url) == host and results not in self._with_request

    async def _wait(self, host: str, gap: timedelta, owner: TaskResults | None) -> None:
        least = EARLY * gap.total_seconds()
        is_due = await owner.step.take_turn() if owner else False
        # The last request of this worker may have been late: a turn that is on time is then too close to it.
        while not is_due or exact_time() - self._sent.get(host, float("-inf")) < least:
            await self._turns.take(host, gap)
            is_due = True
        self._note_sent(host)

    def _note_sent(self, host: str, rounds: int = SEND_ROUNDS) -> None:
        self._sent[host] = exact_time()
        if rounds:
            asyncio.get_running_loop().call_soon(self._note_sent, host, rounds - 1)

    async def complain(self, response: ScrapyResponse) -> None:
        """Let the whole fleet wait for a host that has sent 429 or 503, for as long as it says."""
        fields: Any = response.headers.to_unicode_dict()
        headers = Headers(fields.items())
        asked = retry_after(Response(url=response.url, status=response.status, headers=headers))
        wait = asked or max(timedelta(seconds=1), 2 * self._gap)
        try:
            await self._queue.pause_host(host_of(response.url), min(wait, MAX_PAUSE))
        except QueueError as error:
            log.warning("A host could not be paused for the fleet: %s", error)

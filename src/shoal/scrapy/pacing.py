"""The pace of hosts, which the fleet keeps together: the engine sends a request when the store lets it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta

from scrapy import Request

from shoal.core.model import RunSettings
from shoal.core.tasks import exact_time
from shoal.core.urls import host_of
from shoal.queue.contract import Queue
from shoal.scrapy.results import TaskResults
from shoal.worker.turns import HostTurns

EARLY = 0.95  # of a gap: timers are not exact
# Rounds of the event loop until a request has been written: other callbacks may delay each of them.
SEND_ROUNDS = 6
MAX_RETRY_AFTER = timedelta(hours=1)
REQUEST_TIMEOUT = timedelta(seconds=180)  # Scrapy's default
COMPLAINTS = (429, 503)


class HostPacer:
    """Lets each request wait for its host; the own request of a task has a turn and a slot from its claim."""

    def __init__(self, queue: Queue, settings: RunSettings) -> None:
        self._queue, self._gap, self._per_host = queue, settings.host_delay, settings.per_host
        self._turns = HostTurns(queue)
        self._sent: dict[str, float] = {}  # when this worker has sent the last request to a host
        self._with_request: set[TaskResults] = set()  # tasks whose own request is being sent

    @asynccontextmanager
    async def turn(self, request: Request, results: TaskResults | None) -> AsyncIterator[None]:
        """Wait until a request may be sent, and be one of the host's until its end; raises NotNow."""
        host = host_of(request.url) if request.url[:4].lower() == "http" else None
        if host is None:
            yield
            return
        own = results.request if results else None
        is_own = own is not None and host_of(own.url) == host and results not in self._with_request
        if is_own and results:
            self._with_request.add(results)
        try:
            async with nullcontext() if is_own else self._turns.slot(host, self._per_host, REQUEST_TIMEOUT):
                if self._gap:
                    await self._wait(host, results if is_own else None)
                yield
        finally:
            if is_own and results:
                self._with_request.discard(results)

    async def _wait(self, host: str, owner: TaskResults | None) -> None:
        least = EARLY * self._gap.total_seconds()
        is_due = await owner.take_turn() if owner else False
        # The last request of this worker may have been late: a turn that is on time is then too close to it.
        while not is_due or exact_time() - self._sent.get(host, float("-inf")) < least:
            await self._turns.take(host, self._gap)
            is_due = True
        self._note_sent(host)

    def _note_sent(self, host: str, rounds: int = SEND_ROUNDS) -> None:
        self._sent[host] = exact_time()
        if rounds:
            asyncio.get_running_loop().call_soon(self._note_sent, host, rounds - 1)

    async def complain(self, url: str, retry_after: bytes | None) -> None:
        """Let the whole fleet wait for a host that has sent 429 or 503."""
        text = (retry_after or b"").decode("latin-1")
        asked = timedelta(seconds=int(text)) if text.isdecimal() and len(text) < 9 else None
        wait = asked or max(timedelta(seconds=1), 2 * self._gap)
        if host := host_of(url):
            await self._queue.pause_host(host, min(wait, MAX_RETRY_AFTER))

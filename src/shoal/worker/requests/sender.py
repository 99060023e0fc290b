"""Sends the requests of steps: with the fetcher, the hooks and the limits of their task."""

from datetime import timedelta

from shoal.core.errors import InvalidInput
from shoal.core.http import Request, Response
from shoal.core.model import ZERO, Task
from shoal.core.request_options import POST
from shoal.core.urls import host_of
from shoal.scrape.scraper import Scraper
from shoal.worker.counters import WorkerCounters
from shoal.worker.hook_calls import HookCalls
from shoal.worker.requests.attempt import ProcessorTools, TaskAttempt
from shoal.worker.secrets import headers_towards
from shoal.worker.task_waits import TaskWaits


class StepRequests:
    """Sends requests for the steps of one scraper; `gap` is the run's."""

    gap: timedelta = ZERO

    def __init__(
        self,
        scraper: Scraper,
        tools: ProcessorTools,
        hooks: HookCalls,
        waits: TaskWaits,
        tally: WorkerCounters,
    ) -> None:
        self._scraper, self._tools, self._hooks = scraper, tools, hooks
        self._waits, self._tally = waits, tally

    async def send(self, attempt: TaskAttempt, task: Task, timeout: timedelta | None) -> Response:
        """Return the response to a request, whatever its status; raises FetchError, RobotsDenied."""
        if attempt.is_over:
            raise InvalidInput("A step has called request after its end; await it in the step")
        request = self._build(attempt, task, timeout)
        settings, number, hooks = self._scraper.settings, attempt.number, self._scraper.hooks
        if hooks.request:
            changed = await self._hooks.change_request(request, task, number, settings.lease)
            if isinstance(changed, Response):
                return changed
            request = changed
        await self._check_robots(request.url)
        if self._tools.turns:
            await self._tools.turns.take(host_of(request.url) or "", self._gap_of(request.url))
        if attempt.is_over:
            raise InvalidInput("The step of this request has ended; await it in the step")
        response = await self._tools.fetchers["http"].fetch(request)
        self._tally.bytes += len(response.body)
        if hooks.response:
            response = await self._hooks.change_response(response, task, number, settings.lease)
        return response

    def _build(self, attempt: TaskAttempt, task: Task, timeout: timedelta | None) -> Request:
        assert task.url is not None
        settings, options, number = self._scraper.settings, task.request, attempt.number
        site = settings.sites.find(task.url)
        headers = {**headers_towards(settings, task.url, origin=attempt.task.url), **site.headers}
        return Request(
            url=task.url,
            headers={**headers, **options.headers} if options else headers,
            timeout=timeout
            or self._scraper.handler(attempt.task).timeout
            or site.timeout
            or settings.timeout,
            on_hop=self._check_robots,
            on_bytes=lambda size: self._waits.reserve_memory(number, size),
            post=options.post if options else None,
            method=options.method if options else POST,
            is_foreign=not settings.scope.allows(task.url, origin=attempt.task.url),
            once=self._scraper.at_most_once(self._scraper.handler(attempt.task)),
        )

    async def _check_robots(self, url: str) -> None:
        if self._tools.robots:
            await self._tools.robots.check(url)

    def _gap_of(self, url: str) -> timedelta:
        crawl_delay = self._tools.robots.crawl_delay(url) if self._tools.robots else None
        site = self._scraper.settings.sites.find(url)
        return max(self.gap, crawl_delay or ZERO, site.delay or ZERO)

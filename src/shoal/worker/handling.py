"""From a lease to its outcome: bring the page home, hand it to its step, judge what went wrong."""

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import NotNow, ShoalError, StepTimeout
from shoal.core.exchange import Request, Response
from shoal.core.model import Bury, Done, Lease, Outcome, Release, Retry, Run, Task, error_text
from shoal.core.verdict import RetryPolicy, judge
from shoal.fetch.answer import accepted
from shoal.fetch.cache import NOTHING_KEPT, CachingFetcher
from shoal.fetch.contract import Fetcher
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.robots import Robots
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.scrape.step import Step
from shoal.worker.manners import Manners
from shoal.worker.marks import Marks
from shoal.worker.revisits import Revisits
from shoal.worker.room import Room
from shoal.worker.stock import Start, host_of
from shoal.worker.tally import Tally


class TooLate(Exception):
    """The host must not be asked now: the moment for it has passed, perhaps with asking for robots.txt."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with."""

    fetchers: Mapping[str, Fetcher]
    robots: Robots | None
    threads: Executor
    marks: Marks
    revisits: Revisits | None = None


class Handling:
    """Handles the tasks of one run, each on its own."""

    def __init__(
        self,
        scraper: Scraper,
        run: Run,
        tools: Tools,
        tally: Tally,
        *,
        in_time: Callable[[Start], bool],
        room: Room,
    ) -> None:
        self._scraper, self._tools, self._tally, self._in_time = scraper, tools, tally, in_time
        self._settings = scraper.settings
        self._policies = {
            name: RetryPolicy(max_attempts=scraper.max_attempts(step)) for name, step in scraper.steps.items()
        }
        self._policy = RetryPolicy(max_attempts=run.settings.max_attempts)
        self.manners = Manners(run.settings.host_delay)
        self._room = room
        self._deadlines = Deadlines()

    async def outcome(self, start: Start, number: int) -> Outcome:
        """Handle one task, whatever happens, and return what is to become of it."""
        lease = start.lease
        host = host_of(lease)
        try:
            step = self._scraper.handler(lease.task)
            harvest, was_asked = await self._gathered(step, start, number)
        except TooLate:
            return Release(lease)
        except NotNow as wait:
            return self._put_off(lease, wait)
        except Exception as error:
            return self._failed(lease, host, error)
        finally:
            self._room.give(number)
        for reason, count in harvest.dropped.items():
            self._tally.dropped[reason] = self._tally.dropped.get(reason, 0) + count
        return Done(
            lease,
            items=harvest.items,
            follow=harvest.follow,
            rejects=harvest.rejects,
            slow_host=(self._wished(lease.task.url, host) or self.manners.succeeded(host))
            if was_asked
            else None,
        )

    def _wished(self, url: str | None, host: str | None) -> timedelta | None:
        wish = self._tools.robots.crawl_delay(url) if self._tools.robots and url else None
        return self.manners.wishes(host, wish) if host and wish else None

    async def _gathered(self, step: Step, start: Start, number: int) -> tuple[Harvest, bool]:
        """Return what a task gives, and whether its host was asked."""
        task = start.lease.task
        if step.fetch is None:
            return await self._harvest(step, task, number), True
        if self._tools.revisits:
            return await self._revisited(self._tools.revisits, step, start, number), True
        response = await self._fetched(step.fetch, step, start, number, self._settings.headers)
        return await self._harvest(step, self._page(response, task), number), not response.kept

    async def _revisited(self, revisits: Revisits, step: Step, start: Start, number: int) -> Harvest:
        """Return what a page gives, or gave if it is still the same; and remember it."""
        task = start.lease.task
        past = await revisits.past(task)
        headers = {**self._settings.headers, **past.conditions}
        response = await self._fetched(step.fetch or "", step, start, number, headers)
        if revisits.is_gone(past, response) and response.status not in self._settings.statuses:
            await revisits.note_gone(task, past)
            return Harvest()
        harvest = revisits.same(past, response)
        if harvest is None:
            harvest = await self._harvest(step, self._page(response, task), number)
        await revisits.note(task, past, response, harvest)
        return harvest

    def _page(self, response: Response, task: Task) -> Page:
        return Page(accepted(response, also=self._settings.statuses, block=self._settings.block), task)

    async def _fetched(
        self, fetch: str, step: Step, start: Start, number: int, headers: Mapping[str, str]
    ) -> Response:
        task = start.lease.task
        assert task.url is not None, "handler() has seen to it"
        if self._tools.robots:
            await self._tools.robots.check(task.url)
        request = Request(
            url=task.url,
            headers=headers,
            timeout=step.timeout or self._settings.timeout,
            on_hop=lambda url: self._hop(task, url),
            on_bytes=lambda size: self._room.take(number, size),
        )
        response = await self._response(self._tools.fetchers[fetch], request, start)
        self._tally.bytes += len(response.body)
        return response

    async def _response(self, fetcher: Fetcher, request: Request, start: Start) -> Response:
        """Return the page that is kept, or ask the host for it if the moment is right."""
        look = NOTHING_KEPT
        # A page that failed once may have been kept as it failed: then the host is asked anew.
        if isinstance(fetcher, CachingFetcher) and start.lease.attempt == 1:
            look = await fetcher.look(request)
        if look.page:
            self._tally.kept += 1
            return look.page
        if not self._in_time(start):
            raise TooLate
        return await (
            fetcher.ask(request, look) if isinstance(fetcher, CachingFetcher) else fetcher.fetch(request)
        )

    async def _hop(self, task: Task, url: str) -> None:
        self._settings.scope.check(url, origin=task.url)
        if self._tools.robots:
            await self._tools.robots.check(url)

    async def _harvest(self, step: Step, subject: Page | Task, number: int) -> Harvest:
        span = step.lease or self._settings.lease
        try:
            with self._deadlines.within(span):
                if step.is_async:
                    if isinstance(subject, Page) and subject.is_long:
                        # Parsing takes long enough to hold up everything else on the loop.
                        await asyncio.to_thread(subject.prepare)
                    return await self._tools.marks.in_loop(number, step.harvest_async(subject))
                return await self._in_thread(step, subject, number)
        except TimeoutError as error:
            raise StepTimeout(step.name, span.total_seconds()) from error

    async def _in_thread(self, step: Step, subject: Page | Task, number: int) -> Harvest:
        def harvest() -> Harvest:
            with self._tools.marks.in_thread(number):
                return step.harvest(subject)

        return await asyncio.get_running_loop().run_in_executor(self._tools.threads, harvest)

    def _put_off(self, lease: Lease, reason: NotNow) -> Release:
        kind = type(reason).__name__
        self._tally.put_off[kind] = self._tally.put_off.get(kind, 0) + 1
        return Release(lease, after=reason.after)

    def _failed(self, lease: Lease, host: str | None, error: Exception) -> Retry | Bury:
        kind = type(error).__name__
        self._tally.errors[kind] = self._tally.errors.get(kind, 0) + 1
        now = time.monotonic()
        delay = self.manners.delay(host, now)
        policy = self._policies.get(lease.task.step, self._policy)
        outcome = judge(lease, error, policy, jitter=random.random(), host_delay=delay)
        if self._settings.replay:
            # What was recorded will not get better, and no host is to be spared.
            outcome = Bury(lease, error)
        self.manners.slowed(host, outcome.slow_host, now)
        # As text: an error knows the frames that it came through, and they hold the page.
        return replace(
            outcome, error=error_text(error) if isinstance(error, ShoalError) else _with_place(error)
        )


def _with_place(error: Exception) -> str:
    """Return an error of the user's code with the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return error_text(error)
    last = frames[-1]
    return f"{error_text(error)} ({Path(last.filename).name}:{last.lineno} in {last.name})"

"""From a lease to its outcome: bring the page home, hand it to its step, judge what went wrong."""

import asyncio
import contextvars
import random
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import NotNow, ShoalError, StepTimeout
from shoal.core.exchange import Live, OnHop, Request, Response
from shoal.core.model import Bury, Done, Lease, Outcome, Release, Retry, Run, Task, error_text
from shoal.core.redact import Redact, redacted
from shoal.core.secrets import begin_secrets, hidden
from shoal.core.verdict import RetryPolicy, judge
from shoal.fetch.answer import accepted
from shoal.fetch.cache import NOTHING_KEPT, CachingFetcher, Look
from shoal.fetch.contract import Fetcher
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.robots import Robots
from shoal.fetch.rotation import begin_task
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.scrape.step import Step
from shoal.worker.marks import Marks
from shoal.worker.places import Places
from shoal.worker.revisits import Revisits
from shoal.worker.room import Room
from shoal.worker.slowdowns import Slowdowns
from shoal.worker.stock import Start, host_of
from shoal.worker.tally import Tally


class NothingKnown(Exception):
    """Whether a page may be had is not known without asking its host."""


class TooLate(Exception):
    """The host must not be asked now: its turn has passed, or was used for robots.txt."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with."""

    fetchers: Mapping[str, Fetcher]
    robots: Robots | None
    threads: Executor
    marks: Marks
    revisits: Revisits | None = None
    redact: Redact = redacted
    on_begin: Callable[[Lease], None] | None = None


@dataclass(slots=True)
class Visit:
    """A task on its way, and whether its host was asked for anything."""

    start: Start
    number: int
    look: Look | None = None  # what a look before its start has found
    asked: bool = False
    turn_used: bool = False  # for robots.txt, so that the page has to wait for another
    live: Live | None = None  # the page in its browser

    @property
    def task(self) -> Task:
        return self.start.lease.task


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
        places: Places,
    ) -> None:
        self._scraper, self._tools, self._tally, self._in_time = scraper, tools, tally, in_time
        self._settings = scraper.settings
        self._policies = {SEED_STEP: scraper.retry_policy(scraper.first)} | {
            name: scraper.retry_policy(step) for name, step in scraper.steps.items()
        }
        self._once = {name for name, step in scraper.steps.items() if scraper.at_most_once(step)}
        if scraper.at_most_once(scraper.first) and SEED_STEP not in scraper.steps:
            self._once.add(SEED_STEP)
        self._policy = RetryPolicy(max_attempts=run.settings.max_attempts)
        self._slowdowns = Slowdowns(run.settings.host_delay)
        self._room, self._places = room, places
        self._deadlines = Deadlines()
        self._gap = run.settings.host_delay
        self._may_look = not tools.revisits and any(
            isinstance(fetcher, CachingFetcher) for fetcher in tools.fetchers.values()
        )

    def at_most_once(self, task: Task) -> bool:
        """Tell whether a task is handed out once only, whatever becomes of it."""
        return task.step in self._once

    def may_be_kept(self, lease: Lease) -> bool:
        """Say whether a page may be at hand, so that it is worth a look before its start."""
        waits = bool(self._gap or lease.start_in)
        task = lease.task
        return self._may_look and waits and lease.attempt == 1 and task.url is not None and task.ask is None

    async def look(self, lease: Lease, number: int) -> Look | None:
        """Look whether a page is at hand; None where that is not known without asking its host."""
        try:
            return await self._look(lease.task, number)
        except Exception:
            self.forget(number)
            return None  # whoever handles it will say what is wrong

    def forget(self, number: int) -> None:
        """Let go of the page that a look has found."""
        self._room.give(number)

    async def _look(self, task: Task, number: int) -> Look | None:
        step = self._scraper.handler(task)
        fetcher = self._tools.fetchers[step.fetch] if step.fetch else None
        if not isinstance(fetcher, CachingFetcher) or task.url is None:
            return None
        await self._check_known(task.url)

        async def on_hop(url: str) -> None:
            self._settings.scope.check(url, origin=task.url)
            await self._check_known(url)

        return await fetcher.look(self._request(task, step, number, self._settings.headers, on_hop))

    async def _check_known(self, url: str) -> None:
        """Raise where robots.txt does not allow a page, or would have to be asked for."""
        robots = self._tools.robots
        if robots and not await robots.recall(url):
            raise NothingKnown
        if robots:
            await robots.check(url)

    async def outcome(self, start: Start, number: int, look: Look | None = None) -> Outcome:
        """Handle one task, whatever happens, and return what is to become of it."""
        visit = Visit(start, number, look)
        if self._tools.on_begin:
            self._tools.on_begin(start.lease)
        outcome = await self._outcome(visit)
        return outcome if visit.asked else replace(outcome, asked=False)

    async def _outcome(self, visit: Visit) -> Outcome:
        lease = visit.start.lease
        if lease.attempt > 1 and self.at_most_once(lease.task):
            # The lease of an earlier attempt ran out. The queue counts attempts by run, not by step.
            return Bury(lease, "WorkerDied: its worker vanished, and this task is tried once at most")
        host = host_of(lease)
        begin_task()
        begin_secrets()
        try:
            step = self._scraper.handler(lease.task)
            harvest = await self._gathered(step, visit)
        except TooLate:
            # Its start is spent all the same: else a machine that is always late would claim without end.
            visit.asked = True
            return Release(lease)
        except NotNow as wait:
            return self._put_off(lease, wait)
        except Exception as error:
            return self._failed(lease, host, error)
        finally:
            self._room.give(visit.number)
            if visit.live:
                visit.live.let_go()
        for reason, count in harvest.dropped.items():
            self._tally.dropped[reason] = self._tally.dropped.get(reason, 0) + count
        return Done(
            lease,
            items=harvest.items,
            follow=harvest.follow,
            rejects=harvest.rejects,
            slow_host=self._eased(lease, host) if visit.asked else None,
        )

    def _eased(self, lease: Lease, host: str | None) -> timedelta | None:
        robots, url = self._tools.robots, lease.task.url
        crawl_delay = robots.crawl_delay(url) if robots and url else None
        return self._slowdowns.after_success(host, lease.host_slowdown, crawl_delay, time.monotonic())

    async def _gathered(self, step: Step, visit: Visit) -> Harvest:
        """Return what a task gives."""
        if step.fetch is None:
            visit.asked = True  # what the step asks for on its own is not known here
            return await self._harvest(step, visit.task, visit.number)
        if self._tools.revisits and visit.task.ask is None:
            return await self._revisited(self._tools.revisits, step, visit)
        response = await self._fetched(step.fetch, step, visit, self._settings.headers)
        return await self._harvest(step, self._page(response, visit), visit.number)

    async def _revisited(self, revisits: Revisits, step: Step, visit: Visit) -> Harvest:
        """Return what a page gives, or gave if it is still the same; and remember it."""
        task = visit.task
        past = await revisits.past(task)
        headers = {**self._settings.headers, **past.conditions}
        response = await self._fetched(step.fetch or "", step, visit, headers)
        if revisits.is_gone(past, response) and response.status not in self._settings.statuses:
            await revisits.note_gone(task, past)
            return Harvest()
        harvest = revisits.same(past, response)
        if harvest is None:
            harvest = await self._harvest(step, self._page(response, visit), visit.number)
        await revisits.note(task, past, response, harvest)
        return harvest

    def _page(self, response: Response, visit: Visit) -> Page:
        also, block = self._settings.statuses, self._settings.block
        if block is None:
            return Page(accepted(response, also=also), visit.task)
        # A search takes long on a page made for it: then its task is charged, as with a step that hangs.
        with self._tools.marks.on_loop(visit.number):
            return Page(accepted(response, also=also, block=block), visit.task)

    async def _fetched(self, fetch: str, step: Step, visit: Visit, headers: Mapping[str, str]) -> Response:
        url = visit.task.url
        assert url is not None, "handler() has seen to it"
        self._places.wait_for_host(visit.number)
        await self._check_robots(visit, url)
        request = self._request(visit.task, step, visit.number, headers, lambda url: self._hop(visit, url))
        if fetch != "http":
            # It may wait for a tab, and says itself when it sends the request. Until then it keeps its place:
            # more tasks would wait for the tab too.
            self._places.stop_waiting(visit.number)
            request = replace(request, on_ask=lambda: self._begin_asking(visit))
        response = await self._response(self._tools.fetchers[fetch], request, visit)
        visit.live = response.live
        self._tally.bytes += len(response.body)
        return response

    def _request(
        self, task: Task, step: Step, number: int, headers: Mapping[str, str], on_hop: OnHop
    ) -> Request:
        assert task.url is not None, "handler() has seen to it"
        return Request(
            url=task.url,
            headers={**headers, **task.ask.headers} if task.ask else headers,
            timeout=step.timeout or self._settings.timeout,
            on_hop=on_hop,
            on_bytes=lambda size: self._room.take(number, size),
            post=task.ask.post if task.ask else None,
            once=self.at_most_once(task),
        )

    async def _response(self, fetcher: Fetcher, request: Request, visit: Visit) -> Response:
        """Return the page that is kept, or ask the host for it if the moment is right."""
        look = visit.look or NOTHING_KEPT
        # A page that failed once may have been kept as it failed: then the host is asked anew.
        if isinstance(fetcher, CachingFetcher) and visit.start.lease.attempt == 1 and visit.look is None:
            look = await fetcher.look(request)
        if look.page:
            self._tally.kept += 1
            return look.page
        if not request.on_ask:
            self._begin_asking(visit)
        return await (
            fetcher.ask(request, look) if isinstance(fetcher, CachingFetcher) else fetcher.fetch(request)
        )

    def _begin_asking(self, visit: Visit) -> None:
        self._places.wait_for_host(visit.number)
        if visit.turn_used or not self._in_time(visit.start):
            raise TooLate
        visit.asked = True

    async def _hop(self, visit: Visit, url: str) -> None:
        self._settings.scope.check(url, origin=visit.task.url)
        await self._check_robots(visit, url)

    async def _check_robots(self, visit: Visit, url: str) -> None:
        robots = self._tools.robots
        if robots is None:
            return
        if not await robots.recall(url) and not robots.is_asking(url):
            self._use_turn_for_robots(visit)
        await robots.check(url)

    def _use_turn_for_robots(self, visit: Visit) -> None:
        """Let robots.txt have the turn of a task, unless a redirect has led here: then the turn is used."""
        if self._gap and not visit.asked:
            if not self._in_time(visit.start):
                raise TooLate
            visit.turn_used = True
        visit.asked = True

    async def _harvest(self, step: Step, subject: Page | Task, number: int) -> Harvest:
        span = step.lease or self._settings.lease
        try:
            await self._places.run_step(number)
            with self._deadlines.within(span):
                if step.is_async:
                    if isinstance(subject, Page) and subject.is_long:
                        # Parsing takes long enough to hold up everything else on the loop.
                        await asyncio.to_thread(subject.prepare)
                    return await self._tools.marks.in_loop(number, step.harvest_async(subject))
                return await self._in_thread(step, subject, number)
        except TimeoutError as error:
            raise StepTimeout(step.name, span.total_seconds()) from error
        finally:
            self._places.end_step(number)

    async def _in_thread(self, step: Step, subject: Page | Task, number: int) -> Harvest:
        def harvest() -> Harvest:
            with self._tools.marks.in_thread(number):
                return step.harvest(subject)

        # In the context of the task: what the step says to a log is known by it.
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._tools.threads, context.run, harvest)

    def _put_off(self, lease: Lease, reason: NotNow) -> Release:
        kind = type(reason).__name__
        self._tally.put_off[kind] = self._tally.put_off.get(kind, 0) + 1
        return Release(lease, after=reason.after)

    def _failed(self, lease: Lease, host: str | None, error: Exception) -> Retry | Bury:
        kind = type(error).__name__
        self._tally.errors[kind] = self._tally.errors.get(kind, 0) + 1
        now = time.monotonic()
        delay = self._slowdowns.before_complaint(host, lease.host_slowdown, now)
        policy = self._policies.get(lease.task.step, self._policy)
        outcome = judge(
            lease,
            error,
            policy,
            jitter=random.random(),
            host_delay=delay,
            by_proxies=bool(self._settings.proxies or self._settings.tor),
        )
        if self._settings.replay:
            # What was recorded will not get better, and no host is to be spared.
            outcome = Bury(lease, error)
        self._slowdowns.complained(host, outcome.slow_host, now)
        # As text: an error knows the frames that it came through, and they hold the page. Without secrets:
        # it is kept in the queue, and shown to whoever asks.
        # Cut after that, for half a secret is not known as one.
        said = " ".join(hidden(f"{kind}: {error}").split())
        text = error_text(self._tools.redact(hidden(said)))
        return replace(outcome, error=text if isinstance(error, ShoalError) else text + _place(error))


def _place(error: Exception) -> str:
    """Return the line of the user's code that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""

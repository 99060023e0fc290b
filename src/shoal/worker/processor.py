"""From a lease to its outcome: fetch the page and run its step; outcomes.py judges what went wrong."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial

from msgspec import structs

from shoal.core.errors import NoProxyLeft, NotAPage, NotNow, PrivateAddress, QueueError, StepEnded
from shoal.core.failures import message_of
from shoal.core.http import Request, Response
from shoal.core.model import SEED_STEP, Bury, Done, Fate, Lease, Outcome, Release, Run, Task
from shoal.core.redact import shown_address
from shoal.core.retry_policy import AT_MOST_ONCE
from shoal.core.secrets import begin_secrets, hidden
from shoal.core.tasks import exact_time, forget_cancellation
from shoal.core.text import printable, shorten
from shoal.fetch.cache.fetcher import MISS, CacheLookup, CachingFetcher
from shoal.fetch.contract import Fetcher, begin_task
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.status import accepted
from shoal.scrape.files import is_download, payload_for_step, read_plan
from shoal.scrape.harvest import Harvest
from shoal.scrape.hooks import FailedTask
from shoal.scrape.links.filter import Dropped
from shoal.scrape.page import Page
from shoal.scrape.parsing import names_text
from shoal.scrape.requests import OwnStep, sending_without_page
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.sites import NO_SETTINGS
from shoal.scrape.step import Step, Subject
from shoal.worker.attempts import (
    NothingKnown,
    PageLookup,
    ProcessorTools,
    StepRequests,
    StepRunner,
    TaskAttempt,
    TaskWaits,
    TooLate,
    TooSoon,
    suspended,
)
from shoal.worker.counters import TaskCounts, WorkerCounters
from shoal.worker.files.downloads import UNCHANGED, Downloads, FileSink, as_download, headers_for
from shoal.worker.hook_calls import HookCalls, apply_decision
from shoal.worker.left_out import REUSED, SKIPPED
from shoal.worker.outcomes import OutcomeJudge
from shoal.worker.prefetch import LeaseKey, ScheduledLease, host_of, key_of
from shoal.worker.recrawl import EarlierVisits, VisitStore
from shoal.worker.telemetry.observer import fetch_observed


class TaskProcessor:
    """Processes the tasks of one run, each independently of the others."""

    def __init__(
        self,
        scraper: Scraper,
        run: Run,
        tools: ProcessorTools,
        tally: WorkerCounters,
        *,
        waits: TaskWaits,
        note_cuts: Callable[[Iterable[str]], Awaitable[None]] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Process tasks; `is_stopping` says whether the worker itself cancels them at this moment."""
        self._note_cuts, self._is_stopping = note_cuts, is_stopping
        self._scraper, self._tools, self._tally, self._waits = scraper, tools, tally, waits
        self._judge = OutcomeJudge(scraper, run, tally, robots=tools.robots, redact=tools.redact)
        self._once = {name for name, step in scraper.steps.items() if scraper.at_most_once(step)}
        if scraper.at_most_once(scraper.first) and SEED_STEP not in scraper.steps:
            self._once.add(SEED_STEP)
        self.no_proxy_until = 0.0  # by the worker's clock: what is claimed before would only be postponed
        self._unsettled: dict[LeaseKey, TaskCounts] = {}
        deadlines = Deadlines()
        self._hooks = HookCalls(scraper.hooks, tools.markers, deadlines, is_stopping)
        self._requests = StepRequests(scraper, tools, self._hooks, waits, tally)
        self._steps = StepRunner(tools, deadlines)
        self.read_settings(run)
        self._may_look_up = (
            tools.revisits.chooses
            if tools.revisits
            else not self._hooks.changes_requests
            and any(isinstance(fetcher, CachingFetcher) for fetcher in tools.fetchers.values())
        )

    def read_settings(self, run: Run) -> None:
        """Read the settings of the scraper and its run; again when they have changed."""
        self._settings = self._scraper.settings
        self._judge.read_settings(run)
        self._requests.limits = run.settings
        self._gap = run.settings.host_delay

    def at_most_once(self, task: Task) -> bool:
        """Return whether a task is attempted once only, whatever its outcome."""
        return task.step in self._once

    def may_be_cached(self, lease: Lease) -> bool:
        """Return whether a page may be cached or not due, so that a lookup before its start is worthwhile."""
        waits = bool(self._gap or lease.start_in)
        task = lease.task
        return (
            self._may_look_up
            and waits
            and lease.attempt == 1
            and task.url is not None
            and task.request is None
        )

    async def look_up(self, lease: Lease, number: int) -> PageLookup | None:
        """Look a page up in the cache, or in earlier visits; None if it needs a request to its host."""
        try:
            return await self._look_up(lease.task, number)
        except Exception:
            self.forget(number)
            return None  # `process` reports the error

    def forget(self, number: int) -> None:
        """Release the memory of the page that a lookup has found."""
        self._waits.release_memory(number)

    async def _look_up(self, task: Task, number: int) -> PageLookup | None:
        step = self._scraper.handler(task)
        if self._tools.revisits:
            return await self._tools.revisits.read(task) if step.fetch and not is_download(task) else None
        fetcher = self._tools.fetchers[self._fetcher_of(step, task.url)] if step.fetch else None
        if not isinstance(fetcher, CachingFetcher) or task.url is None:
            return None
        await self._check_known_robots(task.url)

        async def on_hop(url: str) -> None:
            self._settings.scope.check(url, origin=task.url)
            await self._check_known_robots(url)

        headers = self._headers_of(task)
        request = self._requests.build(task, number, headers, timeout=step.timeout, on_hop=on_hop)
        return await fetcher.lookup(request)

    async def _check_known_robots(self, url: str) -> None:
        """Raise if robots.txt forbids a page, or would have to be fetched first."""
        robots = self._tools.robots
        if robots and not await robots.recall(url):
            raise NothingKnown
        if robots:
            await robots.check(url)

    async def process(self, start: ScheduledLease, number: int, lookup: PageLookup | None = None) -> Outcome:
        """Process one task, whatever happens, and return its outcome."""
        attempt = TaskAttempt(start, number, lookup)
        for observer in self._tools.observers:
            observer.on_begin(start.lease)
        outcome = await self._process(attempt)
        if attempt.counts:
            self._unsettled[key_of(start.lease)] = attempt.counts
        return outcome if attempt.asked else structs.replace(outcome, asked=False)

    def count_settled(self, outcome: Outcome, fate: Fate) -> None:
        """Count what a task has left out, now that it is settled."""
        if counts := self._unsettled.pop(key_of(outcome.lease), None):
            self._tally.count_left_out(outcome, fate, counts)

    async def _process(self, attempt: TaskAttempt) -> Outcome:
        lease = attempt.start.lease
        if lease.attempt > 1 and self.at_most_once(lease.task):
            # The lease of an earlier attempt expired. The queue counts attempts by run, not by step.
            return Bury(lease, f"WorkerDied: its worker vanished, and {AT_MOST_ONCE}")
        skip, url = self._settings.skip, lease.task.url
        if skip and url and skip.allows(url, origin=None):
            return Bury(lease, "Skipped: its URL matches the setting skip")
        if slow := self._judge.slow_site(lease):
            return Release(lease, slow_host=slow, reason="its site wants a longer gap than was planned")
        begin_task()
        begin_secrets()
        try:
            step = self._scraper.handler(lease.task)
            harvest = await self._try(step, attempt)
        except TooLate:
            # Its turn is used all the same: else a machine that is always late would claim without end.
            attempt.asked = True
            self._waits.miss_turn(lease)
            return Release(lease, reason="its turn at the host has passed, or was used for robots.txt")
        except TooSoon as error:
            return Release(lease, slow_host=error.delay, reason=str(error))
        except Exception as error:
            if isinstance(error, NotNow) and not attempt.sent:
                if isinstance(error, NoProxyLeft) and not self._settings.sites.have_proxies:
                    self.no_proxy_until = exact_time() + error.after.total_seconds()
                return self._judge.postpone(lease, error)
            if self._judge.count_if_left_out(lease.task, error, attempt.new_counts()):
                return Done(lease, slow_host=self._judge.ease_host(lease) if attempt.asked else None)
            if isinstance(error, PrivateAddress) and self._tools.private and error.host == host_of(lease):
                with suppress(QueueError):
                    await self._tools.private.check(error.host)
            outcome = self._tools.on_error(lease, error) if self._tools.on_error else None
            outcome = outcome or await self._decide(attempt, error)
            if isinstance(outcome, Bury):
                outcome = await self._fall_back(attempt, error, outcome)
            if isinstance(outcome, Bury) and self._tools.revisits and not is_download(lease.task):
                await self._tools.revisits.record_failed(lease.task)
            if isinstance(outcome, Bury) and attempt.response and self._tools.failed_pages:
                await self._tools.failed_pages.keep(lease, type(error).__name__, attempt.response)
            return outcome
        finally:
            attempt.is_over = True
            self._waits.release_memory(attempt.number)
            if attempt.live:
                attempt.live.release()
        if harvest.dropped:
            attempt.new_counts().drop(harvest.dropped)
            if self._note_cuts:
                await self._note_cuts(harvest.dropped)
        return Done(
            lease=lease,
            items=harvest.items,
            follow=harvest.follow,
            rejects=harvest.rejects,
            slow_host=self._judge.ease_host(lease) if attempt.asked else None,
        )

    def _fetcher_of(self, step: Step, url: str | None) -> str:
        site = self._settings.sites.find(url) if step.as_scraper else NO_SETTINGS
        return site.fetch or step.fetch or ""

    async def _try(self, step: Step, attempt: TaskAttempt) -> Harvest:
        """Return what a task yields; a step that cancels its own task fails it."""
        try:
            return await self._fetch_and_run_step(step, attempt)
        except asyncio.CancelledError as error:
            if self._is_stopping():
                raise
            await forget_cancellation()  # else its task would be released, and claimed again, for ever
            raise StepEnded(step.name, error) from error

    async def _decide(self, attempt: TaskAttempt, error: Exception) -> Outcome:
        """Return the outcome of an error: the usual one, or what a hook decides."""
        lease = attempt.start.lease
        sent = f" (its request may have been sent, and {AT_MOST_ONCE})" if isinstance(error, NotNow) else ""
        if not self._scraper.hooks.error:
            return self._judge.judge_error(lease, error, attempt.response, also=sent)
        failed = FailedTask(error, lease.task, lease.attempt, attempt.response)
        try:
            decision = await self._hooks.decide(failed, attempt.number, self._settings.lease)
        except Exception as hook_error:
            # It was raised while the error was handled, so its traceback and its text show both.
            hook_error.__context__ = error
            also = f" (on_error was called for {type(error).__name__}: {message_of(error)})"
            return self._judge.judge_error(lease, hook_error, attempt.response, also=also)
        usual = self._judge.judge_error(lease, error, attempt.response, also=sent)
        if self.at_most_once(lease.task):
            return usual
        return apply_decision(decision, usual, may_retry=self._judge.may_retry(lease))

    async def _fall_back(self, attempt: TaskAttempt, error: Exception, bury: Bury) -> Outcome:
        """Return what the step's `on_error` yields for a task that has failed for good, else its burial."""
        name = attempt.task.step
        step = self._scraper.first if name == SEED_STEP else self._scraper.steps.get(name)
        if step is None or not step.fallbacks or is_download(attempt.task):
            return bury
        failed = FailedTask(error, attempt.task, attempt.start.lease.attempt, attempt.response)
        try:
            harvest = await self._run_step(step.fallbacks[0], failed, attempt)
        except Exception as second:
            second.__context__ = error
            first = f"{type(error).__name__}: {message_of(error)}"
            also = f" (on_error of step {step.name!r} was called for {first})"
            judged = self._judge.judge_error(bury.lease, second, attempt.response, also=also)
            return structs.replace(bury, error=judged.error, traceback=judged.traceback)
        if not (harvest.items or harvest.rejects or harvest.follow):
            return bury
        attempt.new_counts().drop({**harvest.dropped, f"{SKIPPED}{type(error).__name__}, with on_error": 1})
        return Done(
            bury.lease,
            harvest.items,
            harvest.follow,
            harvest.rejects,
            pause_host=bury.pause_host,
            slow_host=bury.slow_host,
        )

    async def _fetch_and_run_step(self, step: Step, attempt: TaskAttempt) -> Harvest:
        """Return what a task yields; nothing if it was queued before it proved to be part of a trap."""
        if self._tools.downloads and is_download(attempt.task):
            return await self._download(self._tools.downloads, step, attempt)
        if trap := self._scraper.first.link_filter.find_trap(attempt.task):
            return Harvest(dropped=Dropped(int, {trap: 1}))
        if step.fetch is None:
            attempt.asked = True  # the requests that the step sends itself are not known here
            own = OwnStep(partial(self._take_turn, attempt), partial(suspended, attempt), self._count_bytes)
            with sending_without_page(attempt.task, partial(self._send_for_page, attempt), own):
                return await self._run_step(step, attempt.task, attempt)
        if self._tools.revisits and attempt.task.request is None:
            return await self._revisit(self._tools.revisits, step, attempt)
        response = await self._fetch(
            self._fetcher_of(step, attempt.task.url), step, attempt, self._headers_of(attempt.task)
        )
        return await self._run_step_on(response, step, attempt)

    async def _download(self, downloads: Downloads, step: Step, attempt: TaskAttempt) -> Harvest:
        """Return what follows from the file of a task, which is stored."""

        async def fetch(conditions: Mapping[str, str], sink: FileSink) -> Response:
            attempt.sink = sink
            headers = {**headers_for(self._settings, attempt.task), **conditions}
            response = await self._fetch("http", step, attempt, headers)
            return accepted(response, also=frozenset({UNCHANGED}), block=self._settings.block)

        async def run_step(response: Response) -> Harvest:
            page = self._new_page(response, attempt, payload_for_step(attempt.task))
            return await self._run_step(step, page, attempt)

        return await downloads.carry_out(attempt.task, step, attempt.new_counts().files, fetch, run_step)

    async def _revisit(self, revisits: "VisitStore", step: Step, attempt: TaskAttempt) -> Harvest:
        """Return what a page yields, or yielded last time if it is unchanged or not due; record the visit."""
        task = attempt.task
        past = attempt.lookup if isinstance(attempt.lookup, EarlierVisits) else await revisits.read(task)
        attempt.lookup = None  # what follows may look the page up in the cache
        if past.is_hit and past.harvest:
            self._waits.miss_turn(attempt.start.lease)
            attempt.new_counts().drop({REUSED[past.reason]: 1})
            revisits.record_reused(task, past)
            return past.harvest
        headers = {**self._headers_of(task), **past.conditions}
        response = await self._fetch(self._fetcher_of(step, task.url), step, attempt, headers)
        if revisits.is_gone(past, response) and response.status not in self._settings.statuses:
            await revisits.record_gone(task, past)
            return Harvest()
        harvest = revisits.harvest_if_unchanged(past, response)
        if harvest is None:
            harvest = await self._run_step_on(response, step, attempt)
        await revisits.record(task, past, response, harvest)
        return harvest

    async def _run_step_on(self, response: Response, step: Step, attempt: TaskAttempt) -> Harvest:
        page = self._make_page(response, attempt)
        harvest = await self._run_step(step, page, attempt)
        if self._tally.first_page is None:
            self._tally.first_page = hidden(shown_address(attempt.task.url or ""))
        return harvest

    def _make_page(self, response: Response, attempt: TaskAttempt) -> Page:
        also, block = self._settings.statuses, self._settings.block
        if block is None:
            return self._new_page(self._check_type(accepted(response, also=also)), attempt)
        # A regex search can take long on a hostile page: then its task is charged, as with a step that hangs.
        with self._tools.markers.mark_loop(attempt.number):
            return self._new_page(self._check_type(accepted(response, also=also, block=block)), attempt)

    def _check_type(self, response: Response) -> Response:
        kind = response.headers.type
        if not kind or names_text(kind) or any(fnmatchcase(kind, one) for one in self._settings.content):
            return response
        raise NotAPage(printable(shorten(kind)))

    async def _send_for_page(self, attempt: TaskAttempt, task: Task, timeout: timedelta | None) -> Page:
        return self._new_page(await self._requests.send(attempt, task, timeout), attempt, task)

    def _new_page(self, response: Response, attempt: TaskAttempt, task: Task | None = None) -> Page:
        page = Page(response, task or attempt.task, self._scraper.args, self._scraper.resources)
        page.send = partial(self._requests.send, attempt)
        return page

    async def _fetch(
        self, fetch: str, step: Step, attempt: TaskAttempt, headers: Mapping[str, str]
    ) -> Response:
        task, number = attempt.task, attempt.number
        url = task.url
        assert url is not None, "handler() has checked it"
        on_sent = attempt.mark_sent if self.at_most_once(task) else None
        request = self._requests.build(
            task,
            number,
            headers,
            timeout=step.timeout,
            on_hop=lambda url: self._check_hop(attempt, url),
            on_sent=on_sent,
        )
        if attempt.sink:
            origin = read_plan(task).origin
            is_foreign = not self._settings.scope.allows(url, origin=origin)
            request = as_download(request, attempt.sink, is_foreign=is_foreign)
        if self._scraper.hooks.request:
            changed = await self._hooks.change_request(request, task, number, self._settings.lease)
            if isinstance(changed, Response):
                await self._waits.reserve_memory(number, len(changed.body))
                attempt.response = changed
                return changed
            request, url = changed, changed.url
            attempt.start = attempt.start._replace(may_be_late=True)
        self._waits.wait_for_host(number)
        if attempt.start.needs_turn:
            await self._requests.wait_for_turn(url)
            attempt.start = attempt.start._replace(may_be_late=True)
        await self._check_robots(attempt, url)
        if fetch != "http":
            # A browser fetcher may wait for a tab, and reports itself when it sends the request. Until then
            # the task keeps its slot: more tasks would wait for the tab too.
            self._waits.stop_waiting(attempt.number)
            request = replace(request, on_send=lambda: self._begin_request(attempt))
        response = await self._fetch_or_reuse(self._tools.fetchers[fetch], request, attempt)
        attempt.live, attempt.response = response.live, response
        self._tally.bytes += len(response.body)
        if self._scraper.hooks.response:
            response = await self._hooks.change_response(response, task, number, self._settings.lease)
            attempt.response = response
        return response

    def _headers_of(self, task: Task) -> Mapping[str, str]:
        assert task.url is not None, "handler() has checked it"
        return self._settings.headers_for(task.url)

    async def _fetch_or_reuse(self, fetcher: Fetcher, request: Request, attempt: TaskAttempt) -> Response:
        """Return the cached page, or fetch it from its host if its turn has come."""
        lookup = attempt.lookup if isinstance(attempt.lookup, CacheLookup) else MISS
        # A page that failed once may have been cached as it failed: then it is fetched again.
        if (
            isinstance(fetcher, CachingFetcher)
            and attempt.start.lease.attempt == 1
            and attempt.lookup is None
        ):
            lookup = await fetcher.lookup(request)
        if lookup.page:
            self._tally.from_cache += 1
            return lookup.page
        if not request.on_send:
            self._begin_request(attempt)
        if isinstance(fetcher, CachingFetcher):
            self._tally.not_cached += attempt.start.lease.attempt == 1
        return await fetch_observed(fetcher, request, self._tools.observers, lookup)

    async def _take_turn(self, attempt: TaskAttempt) -> bool:
        """Wait for the turn of a task, and return whether its step may send a request in it; once."""
        if attempt.turn_used:
            return False
        attempt.turn_used = True
        return await self._waits.take_turn(attempt.start)

    def _count_bytes(self, size: int) -> None:
        self._tally.bytes += size

    def _begin_request(self, attempt: TaskAttempt) -> None:
        self._waits.wait_for_host(attempt.number)
        if delay := self._judge.new_crawl_delay(attempt.start.lease):
            raise TooSoon(delay)
        if attempt.turn_used or not self._waits.try_request(attempt.start):
            raise TooLate
        attempt.asked = True

    async def _check_hop(self, attempt: TaskAttempt, url: str) -> None:
        if attempt.sink is None:
            self._settings.scope.check(url, origin=attempt.task.url)
        await self._check_robots(attempt, url)
        if attempt.asked:  # else the redirect comes from the cache
            await self._requests.wait_for_turn(url)

    async def _check_robots(self, attempt: TaskAttempt, url: str) -> None:
        robots = self._tools.robots
        if robots is None:
            return
        if not await robots.recall(url) and not robots.is_fetching(url):
            self._use_turn_for_robots(attempt)
        await robots.check(url)

    def _use_turn_for_robots(self, attempt: TaskAttempt) -> None:
        """Use a task's turn for robots.txt, unless a redirect has led here: then the turn is used already."""
        if self._gap and not attempt.asked:
            if not self._waits.try_request(attempt.start):
                raise TooLate
            attempt.turn_used = True
        attempt.asked = True

    async def _run_step(self, step: Step, subject: Subject, attempt: TaskAttempt) -> Harvest:
        try:
            await self._waits.begin_step(attempt.number)
            began = exact_time()
            try:
                return await self._steps.run(step, subject, attempt, step.lease or self._settings.lease)
            finally:
                for observer in self._tools.observers:
                    observer.on_step_end(attempt.start.lease, began, exact_time())
        finally:
            self._waits.end_step(attempt.number)

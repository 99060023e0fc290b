"""What becomes of a task after its attempt: the outcome of an error, and what follows for its host."""

import random
import time
from bdb import BdbQuit
from datetime import timedelta

from msgspec.structs import replace

from shoal.core.errors import NotNow, ShoalError
from shoal.core.failures import error_text, message_of
from shoal.core.http import Response
from shoal.core.model import SEED_STEP, ZERO, Bury, Lease, Release, Retry, Run, Task
from shoal.core.pacing import recovered
from shoal.core.redact import Redact
from shoal.core.retry_policy import RetryPolicy, judge
from shoal.core.secrets import hidden
from shoal.core.text import shorten
from shoal.fetch.robots.robots import Robots
from shoal.fetch.singleflight import LruCache
from shoal.scrape.scraper import Scraper
from shoal.worker.counters import TaskCounts, WorkerCounters
from shoal.worker.failures.tracebacks import TracebackFormatter, explain_quit
from shoal.worker.left_out import LeftOutPages
from shoal.worker.prefetch import host_of

ONE_COMPLAINT = 1.0  # seconds: requests in flight together get the same response, and slow the host once
LEASED_BEFORE = 5.0  # seconds after a complaint; most successes in them are of leases from before it
REPLAN_AGAIN = 60.0  # seconds
MAX_HOSTS = 10_000
MAX_REASON = 300  # characters that a heartbeat carries
NO_COMPLAINT = (float("-inf"), ZERO)


class HostBackoff:
    """Decides the slowdown of a host that follows from an outcome."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap  # between two requests to a host that has not complained
        # The last one of each host, and its slowdown
        self._complaints: LruCache[tuple[float, timedelta]] = LruCache(MAX_HOSTS)
        self._replanned: LruCache[float] = LruCache(MAX_HOSTS)  # when the crawl delay of a host was learned

    def before_complaint(self, host: str | None, known: timedelta, now: float) -> timedelta:
        """Return the delay that a complaint now increases; `known` is the slowdown in the lease."""
        at, set_to = self._last_complaint(host, now)
        delay = max(self._gap, known, set_to)
        return delay / 2 if now - at < ONE_COMPLAINT else delay

    def on_complaint(self, host: str | None, slowdown: timedelta | None, now: float) -> None:
        """Record that a host complained, and was slowed to this delay."""
        if host and slowdown:
            at, _ = self._last_complaint(host, now)
            self._complaints.put(host, (at if now - at < ONE_COMPLAINT else now, slowdown))

    def must_replan(self, host: str, now: float) -> bool:
        """Return whether starts that were planned without the crawl delay of a host are planned again.

        For some seconds only, and again after a minute: if the delay does not stay in the store, because
        a run that ignores robots.txt shortens it, the tasks must not be released for ever.
        """
        since = self._replanned.get(host)
        if since is None or now - since > REPLAN_AGAIN:
            since = self._replanned.put(host, now)
        return now - since < LEASED_BEFORE

    def after_success(
        self, host: str | None, known: timedelta, floor: timedelta | None, now: float
    ) -> timedelta | None:
        """Return the new slowdown of a host after a success, at least `floor`; None if it does not change."""
        floor = floor or ZERO
        if host is None or known == floor:
            return None
        if known < self._last_complaint(host, now)[1]:
            return None  # the lease is older than the complaint
        self._complaints.put(host, NO_COMPLAINT)
        eased = recovered(known, floor) if known > floor else floor
        # Below the run's own gap a slowdown has no effect.
        return eased if eased > max(self._gap, floor) else floor

    def _last_complaint(self, host: str | None, now: float) -> tuple[float, timedelta]:
        last = self._complaints.get(host or "")
        return last if last and now - last[0] < LEASED_BEFORE else NO_COMPLAINT


MAX_TASKS = 10_000


class RepeatedFailures:
    """Remembers how the tasks of one worker failed; another worker does not know, and tries once more."""

    def __init__(self) -> None:
        self._failures: LruCache[tuple[str, int]] = LruCache(MAX_TASKS)

    def is_repeated(self, lease: Lease, failure: str, response: Response | None) -> bool:
        """Return whether the last attempt failed in the same way on the same page; remember this one."""
        if response is None:
            return False
        this = failure, hash(response.body)
        before = self._failures.get(lease.task_id)
        self._failures.put(lease.task_id, this)
        return before == this


NEARLY = 0.99  # a store may round a gap


class OutcomeJudge:
    """Decides outcomes by the settings of a scraper and its run, and counts them."""

    def __init__(
        self,
        scraper: Scraper,
        run: Run,
        tally: WorkerCounters,
        *,
        robots: Robots | None,
        redact: Redact,
    ) -> None:
        self._scraper, self._tally = scraper, tally
        self._robots, self._redact = robots, redact
        self._tracebacks = TracebackFormatter.for_code(
            scraper.first.filename, lambda text: redact(hidden(text))
        )
        self._failures = RepeatedFailures()
        self._left_out = LeftOutPages(scraper.first.link_filter.examples, redact)
        self.read_settings(run)

    def read_settings(self, run: Run) -> None:
        """Read the settings of the scraper and its run; again when they have changed."""
        scraper = self._scraper
        self._settings = scraper.settings
        self._policies = {SEED_STEP: scraper.retry_policy(scraper.first)} | {
            name: scraper.retry_policy(step) for name, step in scraper.steps.items()
        }
        self._policy = RetryPolicy(max_attempts=run.settings.max_attempts)
        self._gap = run.settings.host_delay
        self._backoff = HostBackoff(self._gap)

    def count_if_left_out(self, task: Task, error: Exception, counts: TaskCounts) -> bool:
        """Count a page that is skipped, missing or forbidden, and return whether it is one."""
        count_missing = self._settings.missing == "count"
        return self._left_out.leave_out(task, error, counts, count_missing=count_missing)

    def ease_host(self, lease: Lease) -> timedelta | None:
        """Return the new slowdown of a host after a success; None if it does not change."""
        url = lease.task.url
        floor = max(self._crawl_delay(url) or ZERO, self._site_delay(url))
        return self._backoff.after_success(host_of(lease), lease.host_slowdown, floor, time.monotonic())

    def slow_site(self, lease: Lease) -> timedelta | None:
        """Return the gap of a task's site if its start was planned with a shorter one, and must be again."""
        delay = self._site_delay(lease.task.url)
        return delay if delay and lease.host_slowdown < NEARLY * delay else None

    def new_crawl_delay(self, lease: Lease) -> timedelta | None:
        """Return the crawl delay of a task's host if its start was planned before that was known."""
        delay, host = self._crawl_delay(lease.task.url), host_of(lease)
        if not delay or not host or self._settings.playback:
            return None
        is_planned = max(self._gap, lease.host_slowdown) >= NEARLY * delay
        return delay if not is_planned and self._backoff.must_replan(host, time.monotonic()) else None

    def _crawl_delay(self, url: str | None) -> timedelta | None:
        return self._robots.crawl_delay(url) if self._robots and url else None

    def _site_delay(self, url: str | None) -> timedelta:
        """Return the gap of a URL's site, zero unless it is longer than that of all hosts."""
        delay = self._settings.sites.find(url).delay
        return delay if delay and delay > self._gap and not self._settings.playback else ZERO

    def _is_by_proxies(self, url: str | None) -> bool:
        """Return whether the requests to a URL's host leave by proxies or Tor."""
        own = self._settings.sites.find(url).proxies
        return bool(own if own is not None else self._settings.proxies or self._settings.tor)

    def postpone(self, lease: Lease, reason: NotNow) -> Release:
        """Release a task that cannot be fetched now, through no fault of its own."""
        kind = type(reason).__name__
        self._tally.postponed[kind] = self._tally.postponed.get(kind, 0) + 1
        why = error_text(self._redact(hidden(f"{kind}: {reason}")))
        self._tally.waits_for = shorten(why, MAX_REASON)
        return Release(lease, after=reason.after, reason=why)

    def may_retry(self, lease: Lease) -> bool:
        """Return whether some error class leaves a task another attempt."""
        return lease.attempt < self._policies.get(lease.task.step, self._policy).most_attempts

    def judge_error(
        self, lease: Lease, error: Exception, response: Response | None = None, *, also: str = ""
    ) -> Retry | Bury:
        """Return the outcome of a task whose attempt failed, with the error as text and without secrets.

        `also` is added to the text.
        """
        host, trace = host_of(lease), self._tracebacks.format(error)
        if isinstance(error, BdbQuit):
            step = self._scraper.handler(lease.task)
            error, trace = explain_quit(lease, step, is_first=step is self._scraper.first), ""
        kind = type(error).__name__
        place = self._tracebacks.find_line(error, own=isinstance(error, ShoalError))
        in_own_code = self._tracebacks.is_from_user(error)
        now = time.monotonic()
        delay = self._backoff.before_complaint(host, lease.host_slowdown, now)
        policy = self._policies.get(lease.task.step, self._policy)
        outcome = judge(
            lease,
            error,
            policy,
            jitter=random.random(),
            host_delay=delay,
            by_proxies=self._is_by_proxies(lease.task.url),
            in_own_code=in_own_code,
            is_repeated=in_own_code and self._failures.is_repeated(lease, kind + place, response),
        )
        if self._settings.playback:
            # A recording will not get better, and no host needs to be slowed down.
            outcome = Bury(lease, error)
        self._backoff.on_complaint(host, outcome.slow_host, now)
        # As text: an error references the frames that it passed through, and they hold the page. Without
        # secrets: it is stored in the queue, and shown to anyone who may read it.
        # Truncated after that, because half a secret is not recognized as one.
        message = " ".join(hidden(f"{kind}: {message_of(error)}{also}").split())
        text = error_text(self._redact(hidden(message))) + place
        outcome = replace(outcome, error=text, traceback=trace)
        self._tally.note_error(kind, outcome)
        return outcome

"""What becomes of a task after its attempt: the outcome of an error, and what follows for its host."""

import random
import time
from bdb import BdbQuit
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import HttpStatus, NotNow, OutOfScope, RobotsDenied, ShoalError
from shoal.core.failures import error_text, message_of
from shoal.core.model import Bury, Lease, Release, Retry, Run, Task
from shoal.core.redact import Redact, bare_url
from shoal.core.secrets import hidden
from shoal.core.verdict import RetryPolicy, judge
from shoal.fetch.robots.robots import Robots
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.worker.counters import WorkerCounters
from shoal.worker.failures.breakpoints import explain_quit
from shoal.worker.failures.tracebacks import TracebackFormatter
from shoal.worker.host_backoff import HostBackoff
from shoal.worker.left_out.missing import MISSING
from shoal.worker.left_out.reasons import ROBOTS
from shoal.worker.prefetch import host_of


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
        on_private: Callable[[Lease, str], None] | None,
    ) -> None:
        self._scraper, self._tally = scraper, tally
        self._robots, self._redact, self._on_private = robots, redact, on_private
        self._tracebacks = TracebackFormatter.for_code(
            scraper.first.filename, lambda text: redact(hidden(text))
        )
        self.read_settings(run)

    def read_settings(self, run: Run) -> None:
        """Read the settings of the scraper and its run; again when they have changed."""
        scraper = self._scraper
        self._settings = scraper.settings
        self._policies = {SEED_STEP: scraper.retry_policy(scraper.first)} | {
            name: scraper.retry_policy(step) for name, step in scraper.steps.items()
        }
        self._policy = RetryPolicy(max_attempts=run.settings.max_attempts)
        self._backoff = HostBackoff(run.settings.host_delay)

    def count_if_left_out(self, task: Task, error: Exception) -> bool:
        """Count a followed link to a missing or forbidden page, and return whether it is one."""
        if task.depth == 0 or task.url is None:
            return False
        match error:
            case HttpStatus(status=status) if status in MISSING and self._settings.missing == "count":
                self._tally.missing = self._tally.missing.with_one(task.url)
            case RobotsDenied():
                self._tally.dropped[ROBOTS] = self._tally.dropped.get(ROBOTS, 0) + 1
                self._scraper.first.link_filter.examples.setdefault(ROBOTS, bare_url(task.url))
            case _:
                return False
        return True

    def ease_host(self, lease: Lease) -> timedelta | None:
        """Return the new slowdown of a host after a success; None if it does not change."""
        robots, url = self._robots, lease.task.url
        crawl_delay = robots.crawl_delay(url) if robots and url else None
        return self._backoff.after_success(host_of(lease), lease.host_slowdown, crawl_delay, time.monotonic())

    def postpone(self, lease: Lease, reason: NotNow) -> Release:
        """Release a task that cannot be fetched now, through no fault of its own."""
        kind = type(reason).__name__
        self._tally.postponed[kind] = self._tally.postponed.get(kind, 0) + 1
        return Release(lease, after=reason.after)

    def may_retry(self, lease: Lease) -> bool:
        """Return whether some error class leaves a task another attempt."""
        return lease.attempt < self._policies.get(lease.task.step, self._policy).most_attempts

    def judge_error(self, lease: Lease, error: Exception) -> Retry | Bury:
        """Return the outcome of a task whose attempt failed, with the error as text and without secrets."""
        host, trace = host_of(lease), self._tracebacks.format(error)
        if isinstance(error, BdbQuit):
            step = self._scraper.handler(lease.task)
            error, trace = explain_quit(lease, step, is_first=step is self._scraper.first), ""
        kind = type(error).__name__
        if self._on_private and isinstance(error, OutOfScope) and error.private_host == host and host:
            self._on_private(lease, host)
        now = time.monotonic()
        delay = self._backoff.before_complaint(host, lease.host_slowdown, now)
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
            # A recording will not get better, and no host needs to be slowed down.
            outcome = Bury(lease, error)
        self._backoff.on_complaint(host, outcome.slow_host, now)
        # As text: an error references the frames that it passed through, and they hold the page. Without
        # secrets: it is stored in the queue, and shown to anyone who may read it.
        # Truncated after that, because half a secret is not recognized as one.
        message = " ".join(hidden(f"{kind}: {message_of(error)}").split())
        text = error_text(self._redact(hidden(message)))
        if not isinstance(error, ShoalError):
            text += self._tracebacks.find_line(error)
        outcome = replace(outcome, error=text, traceback=trace)
        self._tally.note_error(kind, outcome)
        return outcome

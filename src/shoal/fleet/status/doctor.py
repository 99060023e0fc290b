"""Checks what a run needs before it starts: the queue, the scraper, this machine."""

import resource
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from shoal.core.errors import ShoalError
from shoal.core.model import SECOND
from shoal.core.proxies import ProxyRules
from shoal.discover.routing import Routes
from shoal.fetch.browser.process import installed_chromium
from shoal.fetch.tor.tor import installed_tor
from shoal.fleet.partitions.table import check_table
from shoal.fleet.status.proxies import check_proxies
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue
from shoal.queue.open import file_of, open_queue
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.tokens import TokenSettings
from shoal.scrape.step import discarded_calls
from shoal.worker.fetchers.chain import RENDERED
from shoal.worker.fetchers.credentials import token_source

MIN_OPEN_FILES = 4_096
MIN_FREE_DISK = 1 << 30  # bytes; below it the disk is poor
MIN_FREE_DISK_TO_START = 50 << 20  # bytes; below it the disk is bad
MAX_CLOCK_SKEW = 5 * SECOND
NO_ROUTES = Routes()


class CheckStatus(StrEnum):
    """Result of a check."""

    GOOD = "good"
    POOR = "poor"  # it works, but something may be lost or slow
    BAD = "bad"  # it does not work


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and its result."""

    what: str
    health: CheckStatus
    says: str


def graded(what: str, is_good: bool | None, says: str) -> CheckResult:
    """Return a good result, or a poor one for False, or a bad one for None."""
    health = CheckStatus.BAD if is_good is None else CheckStatus.GOOD if is_good else CheckStatus.POOR
    return CheckResult(what, health, says)


async def examine(
    queue_url: str,
    *scrapers: Scraper | ShoalError,
    routes: Routes = NO_ROUTES,
) -> AsyncIterator[CheckResult]:
    """Check everything in turn; a failed check does not stop the others.

    A scraper that could not be loaded is passed as its error.
    """
    if not scrapers:
        yield graded("scraper", True, "none was named")
    for scraper in scrapers:
        if isinstance(scraper, ShoalError):
            parts = getattr(scraper, "parts", ())  # of a project of which no scraper was named
            yield graded("scraper", False if parts else None, str(scraper))
            for part in parts:
                yield graded(*part)
            continue
        async for result in _check_scraper(scraper):
            is_shared = len(scrapers) > 1 and result.what != "scraper"
            yield replace(result, what=f"{result.what} of {scraper.name}") if is_shared else result
    for result in _check_routes(routes, [one for one in scrapers if isinstance(one, Scraper)]):
        yield result
    async for result in _check_queue(queue_url):
        yield result
    yield _check_open_files()
    yield _check_disk()


def partitions_complete(homes: Mapping[str, int], names: Collection[str], owner: str) -> CheckResult:
    """Check that a partition table has every partition of a run or scraper once, and no other."""
    try:
        check_table(homes, names, owner)
    except ShoalError as error:
        return graded("partitions", None, str(error))
    return graded("partitions", True, f"each of the {len(names):,} has a worker")


def _check_routes(routes: Routes, scrapers: Sequence[Scraper]) -> Iterator[CheckResult]:
    """Check that each rule leads to a step of some scraper: a project has one list of rules for all."""
    for number, rule in enumerate(routes.rules, 1):
        step = rule.sets.get("step")
        if step is not None and scrapers and not any(step in one.steps for one in scrapers):
            lacking = scrapers[0].name if len(scrapers) == 1 else "every scraper"
            says = f"rule {number} leads to the step {step!r}, which {lacking} lacks: its URLs are skipped"
            yield graded("routes", False, says)


async def _check_scraper(scraper: Scraper) -> AsyncIterator[CheckResult]:
    settings = scraper.settings
    yield await _check("scraper", _list_steps(scraper))
    for part in scraper.parts():
        yield graded(*part)
    for step in scraper.steps.values():
        for message in discarded_calls(step.name, step.function):
            yield graded("steps", False, message)
    if settings.proxies is not None:
        yield await _check_proxies(settings.proxies)
    for pattern, rules in settings.sites.proxies.items():
        yield await _check_proxies(rules, f"proxies of {pattern}")
    if settings.tor is not None:
        yield await _check("tor", installed_tor(settings.tor.torrc))
    if any(step.fetch in RENDERED for step in scraper.steps.values()):
        yield await _check("browser", installed_chromium(settings.browser))
    if settings.tokens is not None:
        yield await _check("tokens", _count_tokens(settings.tokens))


async def _check(what: str, examination: Awaitable[str]) -> CheckResult:
    """Return a good result with what an examination says, or a bad one with its error."""
    try:
        return graded(what, True, await examination)
    except (ShoalError, OSError) as error:
        return graded(what, None, str(error))


async def _list_steps(scraper: Scraper) -> str:
    return f"{scraper.name} has the steps {', '.join(scraper.steps)}, starting with {scraper.first.name}"


async def _check_proxies(rules: ProxyRules, name: str = "proxies") -> CheckResult:
    is_usable, is_complete, says = await check_proxies(rules)
    return graded(name, is_complete if is_usable else None, says)


async def _count_tokens(settings: TokenSettings) -> str:
    count = len(set(await token_source(settings).read()))
    return f"{count:,} for {', '.join(sorted(settings.origins))} only"


async def _check_queue(url: str) -> AsyncIterator[CheckResult]:
    try:
        async with open_queue(url) as queue:
            yield graded("queue", True, f"reached {shown_queue(url)}, schema version {await queue.migrate()}")
            found = await queue.durability()
            yield graded("durability", found.safe, found.text)
            yield check_clock(await _measure_skew(queue))
            if readable := _check_privacy(url):
                yield readable
    except ShoalError as error:
        yield graded("queue", None, str(error))


def _check_privacy(url: str) -> CheckResult | None:
    """Check that other users of this machine cannot read the queue's file; None if so, or without a file."""
    file = file_of(url)
    if file is None or not file.stat().st_mode & 0o044:
        return None
    return graded(
        "privacy",
        False,
        f"other users of this machine can read the queue, with its secrets and the requests of its tasks. "
        f"Run: chmod 600 {file}",
    )


async def _measure_skew(queue: Queue) -> timedelta:
    """Return how far this machine's clock is ahead of the store's."""
    before = datetime.now(UTC)
    now = await queue.now()
    return before + (datetime.now(UTC) - before) / 2 - now


def check_clock(skew: timedelta) -> CheckResult:
    """Judge the difference between this machine's clock and the store's."""
    seconds = abs(skew).total_seconds()
    if abs(skew) <= MAX_CLOCK_SKEW:
        return graded("clock", True, f"{seconds:.1f} s from the queue's clock")
    direction = "ahead of" if skew > timedelta(0) else "behind"
    return graded(
        "clock",
        False,
        f"{seconds:,.0f} s {direction} the queue's clock; leases are unaffected (they use "
        "the queue's clock), but log timestamps will be off. Set it: timedatectl set-ntp true",
    )


def _check_open_files() -> CheckResult:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most >= MIN_OPEN_FILES:
        return graded("open files", True, "the limit per worker is high enough")
    says = f"a worker may open {most:,} files; allow at least {MIN_OPEN_FILES:,}. Run: ulimit -Hn"
    return graded("open files", False, says)


def _check_disk() -> CheckResult:
    free = min(shutil.disk_usage(folder).free for folder in (Path.cwd(), tempfile.gettempdir()))
    if free >= MIN_FREE_DISK:
        return graded("disk", True, f"{free / (1 << 30):,.1f} GB free")
    is_enough = False if free >= MIN_FREE_DISK_TO_START else None
    return graded("disk", is_enough, f"only {free / (1 << 20):,.0f} MB free; free some space")

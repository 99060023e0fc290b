"""Looking at what a run needs before it begins: the queue, the scraper, this machine."""

import resource
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from shoal.core.errors import ShoalError
from shoal.core.model import SECOND
from shoal.fetch.browser.chromium import installed_chromium
from shoal.fleet.table import check_table, read_table_file
from shoal.fleet.whereabouts import new_worker_id
from shoal.queue.contract import Queue
from shoal.queue.namespace import shown_queue
from shoal.queue.open import file_of, open_queue
from shoal.scrape.load import load_scraper
from shoal.scrape.scraper import Scraper
from shoal.worker.rendering import RENDERED
from shoal.worker.visiting import source_of

FEWEST_FILES = 4_096
LEAST_DISK = 1 << 30  # bytes
LEAST_TO_WORK = 50 << 20
MOST_SKEW = 5 * SECOND


class Health(StrEnum):
    """How well something is."""

    GOOD = "good"
    POOR = "poor"  # it works, but something may be lost or slow
    BAD = "bad"  # it does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, and how it is."""

    what: str
    health: Health
    says: str


async def examine(
    queue_url: str, scraper: str | Scraper | None = None, partition_table: str | None = None
) -> AsyncIterator[Finding]:
    """Look at everything in turn; a thing that is bad does not keep the rest from being looked at."""
    yield _scraper(scraper) if scraper else Finding("scraper", Health.GOOD, "none was named")
    if proxies := await _proxies(scraper):
        yield proxies
    if tor := await _tor(scraper):
        yield tor
    if browser := await _browser(scraper):
        yield browser
    if tokens := await _tokens(scraper):
        yield tokens
    if partition_table:
        yield _partition_table(partition_table)
    async for finding in _queue(queue_url):
        yield finding
    yield _files()
    yield _disk()


def partitions_complete(homes: Mapping[str, int], names: Collection[str], run_id: str) -> Finding:
    """Say whether a written table has every partition of a run once, and no other."""
    try:
        check_table(homes, names, run_id)
    except ShoalError as error:
        return Finding("partitions", Health.BAD, str(error))
    return Finding("partitions", Health.GOOD, f"each of the {len(names):,} has a worker")


def _partition_table(path: str) -> Finding:
    try:
        homes = read_table_file(Path(path))
    except ShoalError as error:
        return Finding("partitions", Health.BAD, str(error))
    workers = len(set(homes.values()))
    says = f"{len(homes):,} of them for {workers:,} workers; a run is compared with them when it is filled"
    return Finding("partitions", Health.GOOD, says)


def _scraper(reference: str | Scraper) -> Finding:
    try:
        found = load_scraper(reference) if isinstance(reference, str) else reference
        steps = ", ".join(found.steps)
        return Finding(
            "scraper", Health.GOOD, f"{found.name} has the steps {steps}, beginning with {found.first.name}"
        )
    except ShoalError as error:
        return Finding("scraper", Health.BAD, str(error))


async def _proxies(reference: str | Scraper | None) -> Finding | None:
    try:
        found = load_scraper(reference) if isinstance(reference, str) else reference
    except ShoalError:
        return None  # which was said of the scraper
    if found is None or found.settings.proxies is None:
        return None
    from shoal.fleet.proxies import look_at

    is_usable, is_whole, says = await look_at(found.settings.proxies)
    health = Health.GOOD if is_whole else Health.POOR if is_usable else Health.BAD
    return Finding("proxies", health, says)


async def _tor(reference: str | Scraper | None) -> Finding | None:
    try:
        found = load_scraper(reference) if isinstance(reference, str) else reference
        if found is None or found.settings.tor is None:
            return None
    except ShoalError:
        return None  # which was said of the scraper
    from shoal.fetch.tor.tor import installed_tor

    try:
        return Finding("tor", Health.GOOD, await installed_tor(found.settings.tor.torrc))
    except ShoalError as error:
        return Finding("tor", Health.BAD, str(error))


async def _browser(reference: str | Scraper | None) -> Finding | None:
    try:
        found = load_scraper(reference) if isinstance(reference, str) else reference
    except ShoalError:
        return None  # which was said of the scraper
    if found is None or not any(step.fetch in RENDERED for step in found.steps.values()):
        return None
    try:
        return Finding("browser", Health.GOOD, await installed_chromium(found.settings.browser))
    except ShoalError as error:
        return Finding("browser", Health.BAD, str(error))


async def _tokens(reference: str | Scraper | None) -> Finding | None:
    try:
        found = load_scraper(reference) if isinstance(reference, str) else reference
    except ShoalError:
        return None  # which was said of the scraper
    if found is None or found.settings.tokens is None:
        return None
    try:
        count = len(set(await source_of(found.settings.tokens).read()))
    except (ShoalError, OSError) as error:
        return Finding("tokens", Health.BAD, str(error))
    hosts = ", ".join(sorted(found.settings.tokens.origins))
    return Finding("tokens", Health.GOOD, f"{count:,} for {hosts}, and for nobody else")


async def _queue(url: str) -> AsyncIterator[Finding]:
    try:
        async with open_queue(url) as queue:
            yield Finding(
                "queue", Health.GOOD, f"reached {shown_queue(url)}, schema version {await queue.migrate()}"
            )
            said = await queue.durability()
            safe = "costs nothing" in said and "power cut" not in said
            yield Finding("durability", Health.GOOD if safe else Health.POOR, said)
            yield clock(await _skew(queue))
            if readable := _readable_by_others(url):
                yield readable
    except ShoalError as error:
        yield Finding("queue", Health.BAD, str(error))


def _readable_by_others(url: str) -> Finding | None:
    """Say so if other users of this machine may read the queue's file; None if not, or if it is no file."""
    file = file_of(url)
    if file is None or not file.stat().st_mode & 0o044:
        return None
    return Finding(
        "privacy",
        Health.POOR,
        f"other users of this machine can read the queue, with its secrets and what tasks send. "
        f"Run: chmod 600 {file}",
    )


async def _skew(queue: Queue) -> timedelta | None:
    """Return how far this machine's clock is ahead of the store's, None where the store does not say."""
    runs = await queue.runs()
    if not runs:
        return None
    before = datetime.now(UTC)
    # It asks for none of the steps, and gets none.
    grant = await queue.claim(new_worker_id(), run_id=runs[0].id, limit=1, lease=SECOND, steps=[])
    after = datetime.now(UTC)
    return before + (after - before) / 2 - grant.claimed_at if grant.claimed_at else None


def clock(skew: timedelta | None) -> Finding:
    """Say what a difference between this machine's clock and the store's means."""
    if skew is None:
        return Finding("clock", Health.GOOD, "the queue does not tell its time before its first run")
    if abs(skew) <= MOST_SKEW:
        return Finding("clock", Health.GOOD, f"{abs(skew).total_seconds():.1f} s from that of the queue")
    way = "ahead of" if skew > timedelta(0) else "behind"
    return Finding(
        "clock",
        Health.POOR,
        f"{abs(skew).total_seconds():,.0f} s {way} that of the queue; leases do not mind, for they go by the "
        "queue's, but the times in logs differ. Set it: timedatectl set-ntp true",
    )


def _files() -> Finding:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most >= FEWEST_FILES:
        return Finding("open files", Health.GOOD, "a worker may open enough of them")
    return Finding(
        "open files", Health.POOR, f"a worker may open {most:,}; {FEWEST_FILES:,} are better. Run: ulimit -Hn"
    )


def _disk() -> Finding:
    free = min(shutil.disk_usage(place).free for place in (Path.cwd(), tempfile.gettempdir()))
    if free >= LEAST_DISK:
        return Finding("disk", Health.GOOD, f"{free / (1 << 30):,.1f} GB are free")
    if free < LEAST_TO_WORK:
        return Finding("disk", Health.BAD, f"only {free / (1 << 20):,.0f} MB are free; make room first")
    return Finding("disk", Health.POOR, f"only {free / (1 << 20):,.0f} MB are free; make room")

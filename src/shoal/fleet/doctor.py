"""Looking at what a run needs before it begins: the queue, the scraper, this machine."""

import resource
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shoal.core.errors import ShoalError
from shoal.queue.open import open_queue
from shoal.scrape.load import load_scraper

FEWEST_FILES = 4_096
LEAST_DISK = 1 << 30  # bytes


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


async def examine(queue_url: str, scraper: str | None = None) -> AsyncIterator[Finding]:
    """Look at everything in turn; a thing that is bad does not keep the rest from being looked at."""
    yield _scraper(scraper) if scraper else Finding("scraper", Health.GOOD, "none was named")
    async for finding in _queue(queue_url):
        yield finding
    yield _files()
    yield _disk()


def _scraper(reference: str) -> Finding:
    try:
        found = load_scraper(reference)
        steps = ", ".join(found.steps)
        return Finding(
            "scraper", Health.GOOD, f"{found.name} has the steps {steps}, beginning with {found.first.name}"
        )
    except ShoalError as error:
        return Finding("scraper", Health.BAD, str(error))


async def _queue(url: str) -> AsyncIterator[Finding]:
    try:
        async with open_queue(url) as queue:
            yield Finding("queue", Health.GOOD, f"reached, schema version {await queue.migrate()}")
            said = await queue.durability()
            safe = "costs nothing" in said and "power cut" not in said
            yield Finding("durability", Health.GOOD if safe else Health.POOR, said)
    except ShoalError as error:
        yield Finding("queue", Health.BAD, str(error))


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
    return Finding("disk", Health.POOR, f"only {free / (1 << 20):,.0f} MB are free; make room")

"""Shoal: scraping at scale from Python."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.core.version import VERSION

if TYPE_CHECKING:
    from shoal.core.errors import Blocked, RetryLater, SkipTask
    from shoal.core.model import DeadFilter, Reject, Task
    from shoal.core.request_options import RequestOptions
    from shoal.discover.combine.combine import combine
    from shoal.fetch.tor.fetcher import new_circuit
    from shoal.fleet.cluster_roles import start_cluster
    from shoal.fleet.connect import connect
    from shoal.queue.open import open_queue
    from shoal.scrape.page import Page
    from shoal.scrape.scraper import Scraper

__all__ = [
    "Blocked",
    "DeadFilter",
    "Page",
    "Reject",
    "RequestOptions",
    "RetryLater",
    "Scraper",
    "SkipTask",
    "Task",
    "combine",
    "connect",
    "new_circuit",
    "open_queue",
    "start_cluster",
]

__version__ = VERSION

_HOMES = {
    "Blocked": "shoal.core.errors",
    "DeadFilter": "shoal.core.model",
    "RequestOptions": "shoal.core.request_options",
    "Page": "shoal.scrape.page",
    "Reject": "shoal.core.model",
    "RetryLater": "shoal.core.errors",
    "Scraper": "shoal.scrape.scraper",
    "SkipTask": "shoal.core.errors",
    "Task": "shoal.core.model",
    "combine": "shoal.discover.combine.combine",
    "connect": "shoal.fleet.connect",
    "new_circuit": "shoal.fetch.tor.fetcher",
    "open_queue": "shoal.queue.open",
    "start_cluster": "shoal.fleet.cluster_roles",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Runner:
    """Runs scrapers, as a `ScraperRunner`: the layers that do so are imported by the first call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("shoal.cli.file_main" if name == "main" else "shoal.script.run"), name)


# Imported on first use: no program needs all that these import, least of all a worker.
def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    if name == "Scraper":
        value.runner = _Runner()
    globals()[name] = value
    return value

"""Scrapy projects on Shoal: `shoal run PROJECT:SPIDER`, or `SCHEDULER = "shoal.scrapy.Scheduler"`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.scrapy.inside import CrawlScheduler as Scheduler

__all__ = ["Scheduler"]


# On first use: the loader of projects imports this package where Scrapy may not be installed.
def __getattr__(name: str) -> Any:
    if name != "Scheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shoal.scrapy.inside import CrawlScheduler

    return CrawlScheduler

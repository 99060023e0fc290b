"""The feeds of a project, written by Scrapy from what a run has stored: no item is in them twice."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import FeedExporter
from scrapy.settings import Settings

from shoal.core.errors import InvalidInput
from shoal.queue.contract import QueueReports
from shoal.scrapy.compat import make_idle_crawler
from shoal.scrapy.settings import NO_CLASSES, is_by_class

log = logging.getLogger(__name__)


async def write_feeds(
    spider_class: type[Spider], settings: Settings, args: Mapping[str, Any], queue: QueueReports, run_id: str
) -> None:
    """Write the feeds of a run that has ended; raises InvalidInput if one cannot be stored."""
    crawler = make_idle_crawler(spider_class, settings.copy(), args)
    try:
        exporter = FeedExporter.from_crawler(crawler)
    except NotConfigured:
        uris = ", ".join(map(str, settings["FEEDS"] or [settings["FEED_URI"]]))
        raise InvalidInput(f"FEEDS has a format or an address that Scrapy does not know: {uris}") from None
    await _write(exporter, crawler.spider, queue, run_id)
    if any(name.startswith("feedexport/failed_count") for name in crawler.stats.get_stats()):
        raise InvalidInput(f"A feed could not be stored. Run: shoal export {run_id} --to FILE")


class StoredFeeds:
    """Writes the feeds of a crawler from what its run has stored.

    While this process alone works on a new run, each item is written when its task is settled. The feeds of
    a run that was continued, or that others work on, are written from the store at the end.
    """

    def __init__(self, crawler: Crawler, *, is_new: bool) -> None:
        self._crawler, self._is_live, self._written = crawler, is_new, 0
        self._exporters = [one for one in crawler.extensions.middlewares if isinstance(one, FeedExporter)]
        for one in self._exporters:
            crawler.signals.disconnect(one.item_scraped, signals.item_scraped)
            crawler.signals.disconnect(one.close_spider, signals.spider_closed)
            if not is_new:
                crawler.signals.disconnect(one.open_spider, signals.spider_opened)

    def add(self, items: Sequence[Any]) -> None:
        """Write items that were stored now."""
        self._written += len(items)
        if self._is_live:
            for one in self._exporters:
                _export(one, self._crawler.spider, items)

    async def close(self, queue: QueueReports, run_id: str) -> None:
        """Close the feeds; those that lack items are written again."""
        spider: Any = self._crawler.spider
        is_whole = self._is_live and self._written == (await queue.stats(run_id)).items
        for one in self._exporters:
            if self._is_live:
                await one.close_spider(spider)
            if not is_whole:
                await _write(FeedExporter.from_crawler(self._crawler), spider, queue, run_id)


async def _write(exporter: FeedExporter, spider: Any, queue: QueueReports, run_id: str) -> None:
    for uri in [uri for uri, feed in exporter.feeds.items() if is_by_class(feed)]:
        del exporter.feeds[uri]  # it would be overwritten without an item
        log.warning("The feed %s is left as it is, and may lack items: %s", uri, NO_CLASSES)
    exporter.open_spider(spider)
    async for stored in queue.items(run_id):
        _export(exporter, spider, [stored.data])
    await exporter.close_spider(spider)


def _export(exporter: FeedExporter, spider: Any, items: Sequence[Any]) -> None:
    for item in items:
        try:
            exporter.item_scraped(item, spider)
        except Exception:
            log.exception("A feed cannot take an item")

"""The feeds of `scrapy crawl`: they get an item when it is stored, so that none is in them twice."""

import logging
from collections.abc import Sequence
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter

from shoal.queue.contract import QueueReports

log = logging.getLogger(__name__)


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
                self._export(one, items)

    async def close(self, queue: QueueReports, run_id: str) -> None:
        """Close the feeds; those that lack items are written again."""
        spider: Any = self._crawler.spider
        is_whole = self._is_live and self._written == (await queue.stats(run_id)).items
        for one in self._exporters:
            if self._is_live:
                await one.close_spider(spider)
            if not is_whole:
                again = FeedExporter.from_crawler(self._crawler)
                again.open_spider(spider)
                async for stored in queue.items(run_id):
                    self._export(again, [stored.data])
                await again.close_spider(spider)

    def _export(self, exporter: FeedExporter, items: Sequence[Any]) -> None:
        for item in items:
            try:
                exporter.item_scraped(item, self._crawler.spider)  # type: ignore[arg-type]
            except Exception:
                log.exception("A feed cannot take an item")

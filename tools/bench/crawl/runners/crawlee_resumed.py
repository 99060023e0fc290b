"""Crawlee with its Parsel crawler, a storage that is kept between starts, and its export at the end."""

import asyncio
import json
import sys
from pathlib import Path

from crawlee import ConcurrencySettings, service_locator
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import FileSystemStorageClient, SqlStorageClient

STORAGES = {"files": FileSystemStorageClient, "sql": SqlStorageClient}


async def crawl(storage: str, url: str, concurrency: int = 4) -> None:
    """Fetch everything of the site that this page leads to, and go on where an earlier start was killed."""
    service_locator.set_configuration(Configuration(purge_on_start=False))
    service_locator.set_storage_client(STORAGES[storage]())
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency, desired_concurrency=concurrency, max_concurrency=concurrency
        )
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        title = context.selector.css("title::text").get().strip()
        await context.push_data({"url": context.request.url, "title": title})
        await context.enqueue_links()

    await crawler.run([url])
    with Path("out.jsonl").open("w", encoding="utf-8") as lines:
        async for item in (await crawler.get_dataset()).iterate_items():
            lines.write(json.dumps(item) + "\n")


if __name__ == "__main__":
    asyncio.run(crawl(*sys.argv[1:]))

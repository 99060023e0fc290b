"""Crawlee with its Parsel crawler, as its documentation shows it."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import FileSystemStorageClient, MemoryStorageClient, SqlStorageClient

CONCURRENCY = 64
STORAGES = {"memory": MemoryStorageClient, "files": FileSystemStorageClient, "sql": SqlStorageClient}


async def crawl(storage: str, task: str, urls: list[str], out: str) -> None:
    """Fetch the URLs, and in task B everything of their site that they lead to."""
    service_locator.set_storage_client(STORAGES[storage]())
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=CONCURRENCY, desired_concurrency=CONCURRENCY, max_concurrency=CONCURRENCY
        ),
        request_handler_timeout=timedelta(minutes=1),
    )
    lines = Path(out).open("w", encoding="utf-8")  # noqa: SIM115

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        item = {
            "url": context.request.url,
            "title": context.selector.css("title::text").get().strip(),
            "links": len(context.selector.css("a[href]")),
        }
        if storage == "memory":
            lines.write(json.dumps(item) + "\n")
        else:
            await context.push_data(item)
        if task == "B":
            await context.enqueue_links()

    await crawler.run(urls)
    if storage != "memory":
        async for item in (await crawler.get_dataset()).iterate_items():
            lines.write(json.dumps(item) + "\n")
    lines.close()


if __name__ == "__main__":
    storage, task, file, out = sys.argv[1:]
    asyncio.run(crawl(storage, task, Path(file).read_text().split(), out))

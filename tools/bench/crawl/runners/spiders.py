"""Scrapy as its tutorial shows it; the settings are on the command line."""

import os
from pathlib import Path

import scrapy


class Manual(scrapy.Spider):
    """Fetches the URLs of a file, and in task B everything of their site that they lead to."""

    name = "manual"
    allowed_domains = ("127.0.0.1",)

    async def start(self):
        for url in Path(os.environ["BENCH_URLS"]).read_text().split():
            yield scrapy.Request(url)

    def parse(self, response):
        yield {
            "url": response.url,
            "title": response.css("title::text").get().strip(),
            "links": len(response.css("a[href]")),
        }
        if os.environ["BENCH_TASK"] == "B":
            yield from response.follow_all(css="a")

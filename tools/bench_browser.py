"""Measure fetching with a browser beside a plain Playwright loop, on the bundled pages that scripts write.

Both use the same Chromium, visit the same pages and wait for the same element, in turns. Run it with:
    python -m tools.bench_browser [--pages 60] [--rounds 3] [--concurrency 1 4] [--json FILE]
It needs the extra `bench`: pip install 'shoal[bench]'. SHOAL_CHROMIUM names another browser, for both.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, cast

from shoal.core.browser_settings import BrowserSettings
from shoal.core.http import Request
from shoal.demo.site import SiteProcess
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.browser.process import find_chromium, installed_chromium
from shoal.fetch.egress import Egress

READY = "#root.ready h1"
PATIENCE = 30.0  # seconds
Visit = Callable[[str], Awaitable[None]]
Opened = AbstractAsyncContextManager[Visit]
MODES = ("session", "task")


@asynccontextmanager
async def shoal(mode: str, concurrency: int, hosts: Sequence[str]) -> Any:
    """Open Shoal's browser as a worker has it: behind the gate, with a deadline and limits."""
    settings = BrowserSettings(wait=READY, context=cast(Any, mode), tabs=concurrency, max_pages=1_000_000)
    fetcher = BrowserFetcher(settings, egress=Egress(hosts), agent="shoal-bench")

    async def visit(url: str) -> None:
        response = await fetcher.fetch(Request(url=url, timeout=timedelta(seconds=PATIENCE)))
        assert response.live is not None
        response.live.release()
        assert b'class="price"' in response.body, url

    try:
        yield visit
    finally:
        await fetcher.close()


@asynccontextmanager
async def playwright(mode: str, concurrency: int, hosts: Sequence[str]) -> Any:
    """Open Playwright's browser: pages that are used again, or a context for each page."""
    from playwright.async_api import Page, async_playwright

    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=str(find_chromium()), args=["--no-sandbox"])
        shared = await browser.new_context()
        idle: list[Page] = []

        async def look(page: Page, url: str) -> None:
            await page.goto(url, wait_until="commit", timeout=1000 * PATIENCE)
            await page.wait_for_selector(READY, state="attached", timeout=1000 * PATIENCE)
            assert 'class="price"' in await page.content(), url

        async def visit(url: str) -> None:
            if mode == "session":
                page = idle.pop() if idle else await shared.new_page()
                await look(page, url)
                idle.append(page)
                return
            context = await browser.new_context()
            await look(await context.new_page(), url)
            await context.close()

        try:
            yield visit
        finally:
            await browser.close()


async def pace(opened: Opened, urls: Sequence[str], concurrency: int) -> tuple[float, float]:
    """Return the pages per second, and this process's milliseconds of processor for each."""
    async with opened as visit:
        await visit(urls[0])  # which starts the browser
        waiting = list(urls)

        async def go_through() -> None:
            while waiting:
                await visit(waiting.pop())

        began, used = perf_counter(), process_time()
        await asyncio.gather(*(go_through() for _ in range(concurrency)))
        return len(urls) / (perf_counter() - began), 1000 * (process_time() - used) / len(urls)


async def race(
    urls: Sequence[str], hosts: Sequence[str], concurrency: int, rounds: int
) -> list[dict[str, Any]]:
    """Let both run in turns, in both modes; return a row for each mode."""
    rows = []
    for mode in MODES:
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        for number in range(rounds):
            pair = [(ours, shoal), (theirs, playwright)]
            for found, opening in pair if number % 2 == 0 else reversed(pair):
                found.append(await pace(opening(mode, concurrency, hosts), urls, concurrency))
        rows.append(
            {
                "mode": mode,
                "concurrency": concurrency,
                "shoal": round(median(rate for rate, _ in ours), 2),
                "playwright": round(median(rate for rate, _ in theirs), 2),
                "ratio": round(median(a / b for (a, _), (b, _) in zip(ours, theirs, strict=True)), 2),
                "shoal_ms": round(median(used for _, used in ours), 1),
                "playwright_ms": round(median(used for _, used in theirs), 1),
            }
        )
    return rows


def main() -> None:
    """Measure, and print a table."""
    options = _options()
    facts = asyncio.run(installed_chromium(BrowserSettings()))
    with SiteProcess(shops=1, products=max(options.pages, 100)) as site:
        urls = [f"{site.seeds[0]}js/p/{sku.lower()}" for sku in sorted(site.products)[: options.pages]]
        rows = [
            row
            for concurrency in options.concurrency
            for row in asyncio.run(race(urls, site.hosts, concurrency, options.rounds))
        ]
    print(f"{facts}\n")
    print(f"{'context':9} {'at once':>7} {'shoal/s':>8} {'playwright/s':>13} {'ratio':>6} {'Python ms':>14}")
    for row in rows:
        took = f"{row['shoal_ms']:.1f} : {row['playwright_ms']:.1f}"
        print(
            f"{row['mode']:9} {row['concurrency']:7} {row['shoal']:8.2f} {row['playwright']:13.2f} "
            f"{row['ratio']:6.2f} {took:>14}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps({"browser": facts, "rows": rows}, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_browser", description=__doc__)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--json", help="write the rows there")
    return parser.parse_args()


if __name__ == "__main__":
    main()

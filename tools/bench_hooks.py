"""Measure what hooks cost: one page of 8 KB with 30 links, from its lease to its outcome, without a network.

    PYTHONPATH=. .venv/bin/python tools/bench_hooks.py --pages 2000

Each row adds one hook that does nothing. The rows are measured in turns of one page, and the fastest page of
each counts: on a busy machine that is what the code costs, and a longer turn would rarely be undisturbed.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from shoal import Page, Scraper
from shoal.core.http import Headers, Request, Response
from shoal.core.model import MINUTE, ZERO, Done, Lease, Run, RunState, Task
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.requests.attempt import ProcessorTools
from shoal.worker.scheduler import Scheduler
from shoal.worker.task_waits import TaskWaits

KINDS = ("on_request", "on_response", "on_item", "on_error")
HTML_HEADERS = Headers([("content-type", "text/html; charset=utf-8")])


def page_of(items: int) -> bytes:
    """Return a page of 8 KB with 30 links and this many products."""
    links = "".join(f'<li><a href="/p/{n}?ref=list">Product {n}</a></li>' for n in range(30))
    cards = "".join(f"<div class=product><h2>Lamp {n}</h2><b>£{n}.50</b></div>" for n in range(items))
    head = f"<html><head><title>Lamps</title></head><body><ul>{links}</ul>{cards}"
    return (head + "<p>" + "text " * ((8192 - len(head)) // 5) + "</p></body></html>").encode()


class LocalPages:
    """A fetcher that returns one page."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def fetch(self, request: Request) -> Response:
        assert request.on_bytes
        await request.on_bytes(len(self._body))
        return Response(url=request.url, status=200, headers=HTML_HEADERS, body=self._body)

    async def close(self) -> None: ...


def scraper_with(kinds: tuple[str, ...]) -> Scraper:
    """Return a scraper with one hook of each of these kinds."""
    shop = Scraper("shop", robots=False, rate=None)

    @shop.step
    async def listing(page: Page):  # type: ignore[no-untyped-def]
        for card in page.css(".product"):
            yield {"title": card.text("h2"), "price": card.text("b")}
        for link in page.links():
            yield page.follow(link)

    for kind in kinds:
        getattr(shop, kind)(lambda first: None)
    return shop


def processor_of(
    shop: Scraper, items: int, markers: StepMarkers, threads: ThreadPoolExecutor
) -> TaskProcessor:
    run = Run(
        id="r",
        scraper="shop",
        settings=shop.run_settings(),
        state=RunState.RUNNING,
        started_at=datetime.now(UTC),
    )
    return TaskProcessor(
        shop,
        run,
        ProcessorTools({"http": LocalPages(page_of(items))}, None, threads, markers),
        WorkerCounters(),
        waits=TaskWaits(Scheduler(lease=MINUTE, gap=ZERO, concurrency=1)),
    )


async def seconds_for_page(processor: TaskProcessor) -> float:
    """Return the CPU time of one page."""
    task = Task(url="https://shop.test/1", step="listing")
    lease = Lease(run_id="r", task_id="1", token=1, task=task, attempt=1, start_in=ZERO, deadline_in=MINUTE)
    began = time.process_time()
    outcome = await processor.process(ScheduledLease(lease, 0.0), 1)
    seconds = time.process_time() - began
    assert isinstance(outcome, Done) and not outcome.rejects, outcome
    return seconds


async def measure(items: int, pages: int, show: Callable[[str], None]) -> None:
    file = make_file()
    markers = StepMarkers(file)
    os.close(file)
    rows = {"none": (), **{kind: (kind,) for kind in KINDS}, "one of each": KINDS}
    with ThreadPoolExecutor(1) as threads:
        ready = {
            name: processor_of(scraper_with(kinds), items, markers, threads) for name, kinds in rows.items()
        }
        best = dict.fromkeys(ready, float("inf"))
        for _ in range(pages):
            for name, processor in ready.items():
                best[name] = min(best[name], await seconds_for_page(processor))
    markers.close()
    each = {name: seconds * 1e6 for name, seconds in best.items()}
    show(f"\n{items} {'item' if items == 1 else 'items'} per page   µs per page   more")
    for name, micros in each.items():
        show(f"  {name:<18} {micros:12.1f}   {100 * (micros / each['none'] - 1):+5.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=4000, help="pages of each row")
    arguments = parser.parse_args()
    for items in (1, 20):
        asyncio.run(measure(items, arguments.pages, print))


if __name__ == "__main__":
    main()

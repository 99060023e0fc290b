"""Measure calls on demand: what they take beyond the fetch itself, on each queue with four workers."""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

import shoal
from shoal.fleet.app import App
from tests.integration.engine.origin import Answer, Origin
from tests.servers.postgres import PostgresServer
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

FETCH = 0.02  # seconds that the site takes for a page
WORKERS, RATE, WARM_UP = 4, 50.0, 40
SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, per_host=64, robots=False, allow_private="127.0.0.0/8")

@pages.step
async def page(page: Page):
    yield {"title": page.text("title")}
"""


async def overheads(queue_url: str, folder: Path, calls: int, rate: float = RATE) -> list[float]:
    """Make so many calls at a steady rate; return the seconds that each took beyond the fetch."""
    file = folder / "pages.py"
    file.write_text(SCRAPER)
    async with (
        Origin(lambda path: Answer("<title>A page</title>", after=FETCH)) as site,
        shoal.connect(queue_url, folder=folder) as app,
    ):
        await app.listen(str(file), workers=WORKERS)
        await _steadily(app, str(file), site.url, WARM_UP, rate)
        return await _steadily(app, str(file), site.url, calls, rate)


async def _steadily(app: App, name: str, site: str, calls: int, rate: float = RATE) -> list[float]:
    loop = asyncio.get_running_loop()

    async def one(number: int) -> float:
        began = loop.time()
        await app.scrape(name, f"{site}/{number}")
        return loop.time() - began - FETCH

    began, under_way = loop.time(), []
    for number in range(calls):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        under_way.append(asyncio.create_task(one(number)))
    return await asyncio.gather(*under_way)


@contextmanager
def _queues(folder: Path) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(durable=True))
        redis = stack.enter_context(RedisServer(append=True))
        memory = stack.enter_context(RedisServer(append=True))
        rabbit = stack.enter_context(RabbitServer())
        postgres.sql("CREATE DATABASE calls")
        yield {
            "sqlite": f"sqlite:///{folder}/q.db",
            "postgres": postgres.url("calls"),
            "redis": redis.url(),
            "rabbitmq": rabbit.with_state(memory.url()),
        }


def main() -> None:
    """Print a line for each queue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=RATE, help="calls in a second")
    parser.add_argument("--only", choices=["sqlite", "postgres", "redis", "rabbitmq"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _queues(Path(folder)) as queues:
        for name, url in queues.items():
            if given.only in (None, name):
                took = uvloop.run(overheads(url, Path(folder), int(given.rate * given.seconds), given.rate))
                percent = [1000 * cut for cut in statistics.quantiles(took, n=100)]
                print(
                    f"{name:9} {len(took)} calls at {given.rate:g}/s, {WORKERS} workers, beyond the fetch: "
                    f"p50 {percent[49]:.1f} ms  p95 {percent[94]:.1f} ms  p99 {percent[98]:.1f} ms  "
                    f"longest {1000 * max(took):.1f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()

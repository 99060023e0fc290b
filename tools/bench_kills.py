"""Kill a crawl 20 times with SIGKILL, start it again each time, and count the items that are lost or doubled.

Every crawler follows the links of the same site, with the settings that its documentation gives for going on
after a crash. It is killed whole, all its processes at once, when the site has served some more pages.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tests.servers.redis import RedisServer
from tools.bench.crawl.peers import peers_python, versions
from tools.bench.crawl.site import Manual

RUNNERS = Path(__file__).parent / "bench" / "crawl" / "runners"
LATENCY = 0.1  # seconds, of each page
CONCURRENCY = 4
PAGES, KILLS = 1_200, 20
SERVED = (15, 70)  # pages from one kill to the next
LAST_TRY = 300.0  # seconds; a crawler that does not end is ended

SCRAPY = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "LOG_LEVEL": "ERROR",
}
JOBDIR = {"JOBDIR": "job"}
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a crawler works: its folder, the address of the site, a Redis, and the Python of the peers."""

    folder: Path
    site: str
    redis: str
    peers: Path


Command = Callable[[Place], list[object]]


def crawlers() -> dict[str, Command]:
    """Return the command of every crawler, which is the same for a first start and for a restart."""
    return {
        "Shoal, SQLite": lambda place: _shoal(place, f"{RUNNERS / 'shoal_manual.py'}:linked"),
        "Shoal, SQLite, 2 workers": lambda place: _shoal(place, f"{RUNNERS / 'shoal_manual.py'}:linked", 2),
        "Scrapy spider on Shoal": lambda place: _shoal(place, f"{RUNNERS / 'spiders.py'}:manual"),
        "Scrapy, JOBDIR": lambda place: _scrapy(place, JOBDIR),
        "scrapy-redis": lambda place: _scrapy(place, SCRAPY_REDIS | {"REDIS_URL": place.redis}),
        "Crawlee, files": lambda place: [place.peers, RUNNERS / "crawlee_resumed.py", "files", place.site],
        "Crawlee, SQL": lambda place: [place.peers, RUNNERS / "crawlee_resumed.py", "sql", place.site],
    }


def _shoal(place: Place, scraper: str, workers: int = 1) -> list[object]:
    program = Path(sys.executable).with_name("shoal")
    options = ["--resume", "auto", "--out", "out.jsonl", "--workers", workers, "--concurrency", CONCURRENCY]
    address = place.site.removeprefix("http://").partition("/")[0]
    is_spider = scraper.endswith(":manual")  # it has a `start()`
    more = [] if is_spider else ["--urls-file", "urls.txt", "--allow-private", address]
    return [program, "run", scraper, *options, *more]


def _scrapy(place: Place, settings: Mapping[str, object]) -> list[object]:
    pairs = [word for name, value in {**SCRAPY, **settings}.items() for word in ("-s", f"{name}={value}")]
    return [place.peers, "-m", "scrapy", "runspider", RUNNERS / "spiders.py", "-o", "out.jsonl", *pairs]


class Site:
    """The pages, served after a moment, and how many were."""

    def __init__(self, pages: int) -> None:
        manual = Manual(pages)
        self._pages = {truth.path: html.encode() for truth, html in map(manual.page, range(pages))}
        self.paths = set(self._pages)
        self.served = 0
        self._loop = asyncio.new_event_loop()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on a free port in a thread, and yield the address of the first page."""
        start = asyncio.start_server(self._answer, "127.0.0.1", 0)
        server = self._loop.run_until_complete(start)
        thread = Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/index.html"
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
                await asyncio.sleep(LATENCY)
                body = self._pages.get(path.partition("?")[0])
                status = b"200 OK" if body else b"404 Not Found"
                kind = b"text/html; charset=utf-8"
                writer.write(
                    b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
                    % (status, kind, len(body or b""), body or b"")
                )
                await writer.drain()
                self.served += bool(body)
        writer.close()


@dataclass(frozen=True, slots=True)
class Result:
    """What a crawl that was killed has left."""

    kills: int
    lost: int
    doubled: int
    broken: int  # lines that are no JSON
    served: int
    ended: bool


def crawl(command: Command, site: Site, place: Place, kills: int) -> Result:
    """Start the crawler, kill it as often as that, let it end, and read its items."""
    words = [str(word) for word in command(place)]
    (place.folder / "urls.txt").write_text(place.site)
    environment = os.environ | {"BENCH_URLS": str(place.folder / "urls.txt"), "BENCH_TASK": "B"}
    first, dice, done = site.served, random.Random(5), 0
    while done < kills:
        process = _start(words, place.folder, environment)
        goal = site.served + dice.randint(*SERVED)
        until = time.monotonic() + LAST_TRY
        while process.poll() is None and site.served < goal and time.monotonic() < until:
            time.sleep(0.02)
        if process.poll() is not None:
            break  # it found nothing more to do
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done += 1
    process = _start(words, place.folder, environment)
    with suppress(subprocess.TimeoutExpired):
        process.wait(LAST_TRY)
    ended = process.poll() is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    found, broken = _read(place.folder)
    items = Counter(found)
    lost = len(site.paths - {f"/{url.split('/', 3)[3]}" for url in items})
    return Result(done, lost, sum(items.values()) - len(items), broken, site.served - first, ended)


def _start(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(
            words, cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True
        )


def _read(folder: Path) -> tuple[list[str], int]:
    found, broken = [], 0
    out = folder / "out.jsonl"
    for line in out.read_text(errors="replace").splitlines() if out.exists() else ():
        try:
            found.append(json.loads(line)["url"].partition("#")[0])
        except (ValueError, KeyError):
            broken += 1
    return found, broken


def main() -> None:
    """Print a row for each crawler."""
    parser = argparse.ArgumentParser(prog="make bench-kills", description=__doc__)
    parser.add_argument("--only", choices=list(crawlers()))
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--kills", type=int, default=KILLS)
    options = parser.parse_args()
    peers, site = peers_python(), Site(options.pages)
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    print(f"{options.pages:,} pages; killed whenever {SERVED[0]} to {SERVED[1]} more were served\n")
    print("| | kills | items lost | doubled | broken lines | pages fetched | ended |")
    print("|---|--:|--:|--:|--:|--:|---|")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kills-")))
        redis = stack.enter_context(RedisServer())
        address = stack.enter_context(site.serving())
        for number, (name, command) in enumerate(crawlers().items()):
            if options.only in (None, name):
                own = folder / str(number)
                own.mkdir()
                done = crawl(command, site, Place(own, address, redis.url(), peers), options.kills)
                print(
                    f"| {name} | {done.kills} | {done.lost:,} | {done.doubled:,} | {done.broken} "
                    f"| {done.served:,} | {'yes' if done.ended else 'no'} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Runs the example: a producer, four workers, every lane, then a second producer that finds nothing new."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from examples.common.items import read_items
from examples.common.patience import Failure
from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import Workspace
from examples.news.articles import ARCHIVE, BREAKING, LIVE, PAPERS, WEATHER

EXPECTED = Path(__file__).parent / "expected.jsonl"
WORKERS = 4
RATE = 10  # requests a second to one paper, as in news.py
PER_PAPER = ARCHIVE + BREAKING + LIVE + WEATHER
QUEUED = len(PAPERS) * PER_PAPER
INVALID = len(PAPERS) * 3
WINDOW = 5  # seconds in which requests are counted
WEATHER_TTL = 1.0  # seconds, as in shoal.toml
# What must become of the articles of each paper that cannot be had, and after how many attempts.
DEAD = {
    ("article", "HttpStatus: The host returned status 500", 3),
    ("article", "FetchTimeout", 3),
    ("article", "HttpStatus: The host returned status 404", 1),
    ("live", "HttpStatus: The host returned status 500", 1),
}
PRODUCE = ("enqueue", "news", "--dedup", "30d", "--rejects", "rejects.jsonl")


def show(folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    with SiteOfExample("news") as site, Workspace("news", folder, queue, site.names) as work:
        work.test()
        lines = _show_producer(work)
        time.sleep(WEATHER_TTL)  # until the weather has expired
        seconds = _show_workers(work)
        lines += [*_check_results(work), *_check_dead(work)]
        herald = site.names[f"127.0.0.1:{PAPERS['herald']}"]
        lines += [*_show_second_producer(work, herald), *_show_cache(work, herald)]
    return [*lines, *_check_visits(site.report), *_headline(seconds)]


def _show_producer(work: Workspace) -> list[str]:
    (queued,) = work.read(*PRODUCE, "--invalid", "dead")
    rejects = read_items(work.folder / "rejects.jsonl")
    if (queued["enqueued"], queued["invalid"], len(rejects)) != (QUEUED, INVALID, INVALID):
        raise Failure(f"The producer says {queued}, and rejects {rejects}")
    return [f"{QUEUED} articles of nine sitemaps queued, {INVALID} invalid URLs reported with file and entry"]


def _show_workers(work: Workspace) -> float:
    """Start four workers as four containers would, and return how long they take."""
    began = time.monotonic()
    for number in range(WORKERS):
        work.start(f"worker-{number}", "start", "--role", "worker")
    work.wait_for_end()
    seconds = time.monotonic() - began
    logs = [(work.folder / f"worker-{number}.log").read_text() for number in range(WORKERS)]
    # One is enough for five papers with limits, so how many of them fetch articles is a matter of chance.
    if not any("worker ended" in log and "reason=drained" in log for log in logs):
        raise Failure("No worker has worked until the run was drained:\n" + "\n".join(logs))
    for number in range(WORKERS):
        work.started[f"worker-{number}"].terminate()
    return seconds


def _check_results(work: Workspace) -> list[str]:
    (status,) = work.read("status", "newest")
    work.shoal("export", "newest", "--to", "news.jsonl")
    found = read_items(work.folder / "news.jsonl")
    if found != read_items(EXPECTED):
        raise Failure(f"{len(found)} items, and they are not those of {EXPECTED.name}")
    if status["expired"] != len(PAPERS) * WEATHER:
        raise Failure(f"{status['expired']} articles have expired, not {len(PAPERS) * WEATHER}")
    return [
        f"{len(found)} items by {WORKERS} workers, each once",
        f"{status['expired']} articles expired after their second, counted and listed",
    ]


def _check_dead(work: Workspace) -> list[str]:
    dead = work.read("dead", "list", "newest", "--limit", "100")
    invalid = [letter for letter in dead if letter["step"] == "invalid-seed"]
    others = [letter for letter in dead if letter["step"] != "invalid-seed"]
    found = {(one["step"], _matching(one["error"]), one["attempts"]) for one in others}
    if found != DEAD or len(others) != len(DEAD) * len(PAPERS) or len(invalid) != INVALID:
        raise Failure(f"{len(dead)} dead letters: {sorted(found)}")
    return [
        f"{len(others)} dead letters, kept for a day: 500 and timeout after 3 attempts, 404 after 1",
        "a 500 of a live page: dead after 1 attempt, because it is fetched at most once",
    ]


def _matching(error: str) -> str:
    return next((one for _, one, _ in DEAD if error.startswith(one)), error)


def _show_second_producer(work: Workspace, herald: str) -> list[str]:
    (queued,) = work.read(*PRODUCE, "--sitemap", f"http://{herald}")
    if (queued["status"], queued["known"]) != ("nothing new", PER_PAPER):
        raise Failure(f"The second producer says {queued}")
    return [f"a second producer for one paper: nothing new, {PER_PAPER} known"]


def _show_cache(work: Workspace, herald: str) -> list[str]:
    """Fetch breaking news again, without the dedup of producers: they are in the cache."""
    file = f"http://{herald}/news.xml"
    again = json.loads(work.shoal("run", "news", "--sitemap", file, "--workers", "1", "--json", exits=(3,)))
    if again["from_cache"] != BREAKING + LIVE - 1:
        raise Failure(f"{again['from_cache']} of the articles were in the cache: {again}")
    return [f"{again['from_cache']} articles again within five minutes: all from the cache"]


def _check_visits(report: dict[str, Any]) -> list[str]:
    """Check the limit of each paper, and that breaking news went first."""
    most = 0
    for paper, visits in report["visits"].items():
        times = sorted(at for at, _ in visits)
        most = max(most, *(sum(at <= other < at + WINDOW for other in times) for at in times))
        sections = [path.split("/")[1] for _, path in visits]
        first = sections.index("archive")
        if sections[:first].count("breaking") < BREAKING:
            raise Failure(f"{paper}: the archive was fetched before breaking news: {sections[:30]}")
    # On a busy machine some are late, and the next ones are not; so does the site see them late.
    if most > RATE * (WINDOW + 1 + report["late"]):
        raise Failure(f"{most} requests to one paper within {WINDOW} s")
    return [f"breaking news first at every paper; at most {most} requests to a paper within {WINDOW} s"]


def _headline(seconds: float) -> list[str]:
    return [
        f"{QUEUED} articles in {seconds:.0f} s by {WORKERS} workers; a paper allows {RATE * 60} a minute",
        "the report: four workers on priority, normal and failed queues of 30 minutes, 1 hour and 24 hours",
    ]


if __name__ == "__main__":
    sys.exit(main("news", show, fleet="rabbitmq"))

"""What every hardship needs: hosts in a process of their own, and a run from the command line."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from tools.bench.hardship.cores import Cores
from tools.bench.hardship.origin import Asked, address

ROOT = Path(__file__).resolve().parents[3]
SHOAL = str(Path(sys.executable).with_name("shoal"))
SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", robots=False, allow_private="127.0.0.0/8", **{settings!r})


@pages.step
async def page(page: Page):
    yield {{"url": page.url, "title": page.text("title")}}
"""


class Hosts:
    """The hosts of one run."""

    def __init__(self, slow: int = 0, *, stamped: bool = False) -> None:
        self._arguments = [str(slow), *(["stamped"] if stamped else [])]

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tools.bench.hardship.origin", *self._arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def url(self, host: int, page: int) -> str:
        """Return the address of a page."""
        return f"http://{address(host)}:{self._port}/{page}"

    def asked(self) -> Asked:
        """End the hosts, and return what each was asked and when."""
        return cast(Asked, json.loads(self._process.communicate()[0]))


@dataclass
class Run:
    """What a run of the command line has come to."""

    summary: dict[str, Any]
    items: list[dict[str, Any]]
    kills: int = 0


def run(
    folder: Path,
    urls: Iterable[str],
    settings: dict[str, Any],
    *,
    workers: int,
    queue: str | None = None,
    kill_every: float | None = None,
    cores: Cores | None = None,
) -> Run:
    """Run the scraper on these pages to its end; workers may be killed, or have but a part of a core."""
    (folder / "pages.py").write_text(SCRAPER.format(settings=settings))
    (folder / "urls.txt").write_text("\n".join(urls))
    words = [SHOAL, "run", "pages.py", "--urls-file", "urls.txt", "--workers", str(workers), "--json"]
    words += ["--queue", queue or "sqlite:///q.db", "--out", "items.jsonl"]
    out = (folder / "said.jsonl").open("w+")
    process = subprocess.Popen(words, cwd=folder, stdout=out, stderr=subprocess.DEVNULL)
    kills = 0
    while process.poll() is None:
        time.sleep(kill_every or 0.05)
        if kill_every:
            kills += _kill_one(process.pid)
        if cores:
            cores.lend_to(_workers_of(process.pid))
    out.seek(0)
    *_, last = out.read().splitlines()
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    return Run(json.loads(last), items, kills)


def _kill_one(launcher: int) -> bool:
    """Kill a worker: one of those that the fork server has started."""
    workers = _workers_of(launcher)
    if not workers:
        return False
    with suppress(ProcessLookupError):
        os.kill(random.choice(workers), signal.SIGKILL)
        return True
    return False


def _workers_of(launcher: int) -> list[int]:
    return [worker for server in _children(launcher) for worker in _children(server)]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []

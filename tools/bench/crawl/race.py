"""One heat after the other: everybody does the same tasks, in turn, and is checked."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench.crawl.check import check
from tools.bench.crawl.field import Heat, Racer
from tools.bench.crawl.measure import Usage, run
from tools.bench.crawl.nginx import Nginx, Visits
from tools.bench.crawl.site import INDEX, Truth
from tools.bench.crawl.stores import Stores

CLIENT, SERVER = 0, 1  # cores
PATIENCE = 1_200.0  # seconds for one heat


@dataclass(frozen=True, slots=True)
class Result:
    """What one heat took; processor seconds of the store are counted apart."""

    task: str
    racer: str
    pages: int
    seconds: float
    crawl_seconds: float
    cpu: float
    store_cpu: float
    memory_mb: float
    load: float


class Race:
    """The track: the pages, their server, and the stores."""

    def __init__(self, nginx: Nginx, stores: Stores, truths: Sequence[Truth], peers: Path) -> None:
        self._nginx, self._stores, self._truths, self._peers = nginx, stores, truths, peers

    def heat(self, task: str, racer: Racer) -> Result:
        """Run one racer on one task; raises CommandFailed or WrongOutput."""
        alone = racer.processes == 1
        load = os.getloadavg()[0]
        self._nginx.forget()
        with (
            self._stores.room(racer.store, {SERVER} if alone else {CLIENT, SERVER}) as store,
            self._prepared(task, store) as heat,
        ):
            before = self._stores.cpu(racer.store)
            usage = self._run(racer, heat, {CLIENT} if alone else {CLIENT, SERVER})
            store_cpu = self._stores.cpu(racer.store) - before
            visits = self._nginx.visits()
            if racer.is_checked:
                check(heat.out.read_text(encoding="utf-8").splitlines(), self._truths, self._nginx.origin)
        pages = len(self._truths) if racer.is_checked else visits.statuses.total()
        return _result(task, racer, pages, usage, visits, store_cpu, load)

    @contextmanager
    def _prepared(self, task: str, store: str) -> Iterator[Heat]:
        folder = Path(tempfile.mkdtemp(prefix="shoal-crawl-"))
        try:
            paths = [INDEX] if task == "B" else [truth.path for truth in self._truths]
            urls = folder / "urls.txt"
            urls.write_text("".join(f"{self._nginx.origin}{path}\n" for path in paths))
            host = self._nginx.origin.removeprefix("http://")
            yield Heat(task=task, urls=urls, folder=folder, host=host, peers=self._peers, store=store)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, racer: Racer, heat: Heat, cores: set[int]) -> Usage:
        env = {"BENCH_TASK": heat.task, "BENCH_URLS": str(heat.urls)}
        there = cores & os.sched_getaffinity(0) or os.sched_getaffinity(0)
        return run(racer.command(heat), folder=heat.folder, cores=there, env=env, timeout=PATIENCE)


def _result(
    task: str, racer: Racer, pages: int, usage: Usage, visits: Visits, store_cpu: float, load: float
) -> Result:
    return Result(
        task=task,
        racer=racer.name,
        pages=pages,
        seconds=usage.seconds,
        crawl_seconds=visits.seconds,
        cpu=usage.cpu,
        store_cpu=store_cpu,
        memory_mb=usage.memory_mb,
        load=load,
    )

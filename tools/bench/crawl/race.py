"""One heat after the other: everybody does the same tasks, in turn, and is checked."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench.crawl.check import check
from tools.bench.crawl.cpu import busy, cpu_of, there
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
    others: float  # cores that the rest of the machine used meanwhile


class Race:
    """The track: the pages of each task, their server, and the stores."""

    def __init__(
        self, nginx: Nginx, stores: Stores, truths: Mapping[str, Sequence[Truth]], peers: Path
    ) -> None:
        self._nginx, self._stores, self._truths, self._peers = nginx, stores, truths, peers

    def heat(self, task: str, racer: Racer) -> Result:
        """Run one racer on one task; raises CommandFailed or WrongOutput."""
        alone = racer.processes == 1
        self._nginx.forget()
        with (
            self._stores.room(racer.store, {SERVER} if alone else {CLIENT, SERVER}) as store,
            self._prepared(task, store) as heat,
        ):
            before = self._clocks(racer)
            usage = self._run(racer, heat, {CLIENT} if alone else {CLIENT, SERVER})
            spent = [late - soon for late, soon in zip(self._clocks(racer), before, strict=True)]
            visits = self._nginx.visits()
            if racer.is_checked:
                check(
                    heat.out.read_text(encoding="utf-8").splitlines(), self._truths[task], self._nginx.origin
                )
        pages = len(self._truths[task]) if racer.is_checked else visits.statuses.total()
        return _result(task, racer, pages, usage, visits, spent)

    def _clocks(self, racer: Racer) -> tuple[float, float, float]:
        """Return the processor seconds used so far: by the store, by the rest of the track, by everybody."""
        ours = cpu_of(self._nginx.pid) + time.process_time()
        return self._stores.cpu(racer.store), ours, busy()

    @contextmanager
    def _prepared(self, task: str, store: str) -> Iterator[Heat]:
        folder = Path(tempfile.mkdtemp(prefix="shoal-crawl-"))
        try:
            paths = [INDEX] if task == "B" else [truth.path for truth in self._truths[task]]
            urls = folder / "urls.txt"
            urls.write_text("".join(f"{self._nginx.origin}{path}\n" for path in paths))
            host = self._nginx.origin.removeprefix("http://")
            yield Heat(task=task, urls=urls, folder=folder, host=host, peers=self._peers, store=store)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, racer: Racer, heat: Heat, cores: set[int]) -> Usage:
        env = {"BENCH_TASK": heat.task, "BENCH_URLS": str(heat.urls)}
        return run(racer.command(heat), folder=heat.folder, cores=there(cores), env=env, timeout=PATIENCE)


def _result(
    task: str, racer: Racer, pages: int, usage: Usage, visits: Visits, spent: Sequence[float]
) -> Result:
    store_cpu, track_cpu, everybody = spent
    return Result(
        task=task,
        racer=racer.name,
        pages=pages,
        seconds=usage.seconds,
        crawl_seconds=visits.seconds,
        cpu=usage.cpu,
        store_cpu=store_cpu,
        memory_mb=usage.memory_mb,
        others=(everybody - usage.cpu - store_cpu - track_cpu) / usage.seconds,
    )

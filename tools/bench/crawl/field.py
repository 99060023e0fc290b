"""Who takes part: every way to crawl that is measured, and the command that starts it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RUNNERS = Path(__file__).with_name("runners").resolve()
CONCURRENCY = 64
WRK_SECONDS = 5

_FULL_SPEED = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "LOG_LEVEL": "WARNING",
}
_SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """What one run is given: a task, where to begin, a folder of its own, and a store if it needs one."""

    task: str
    urls: Path
    folder: Path
    host: str
    peers: Path  # the Python that has the peers
    store: str = ""

    @property
    def out(self) -> Path:
        """Where the lines go."""
        return self.folder / "out.jsonl"


Words = list[str | Path]
Command = Callable[[Heat], Words]


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """One way to crawl. `survives` says what outlives a crash; wrk keeps nothing and is not checked."""

    name: str
    label: str
    command: Command
    survives: str
    processes: int = 1
    store: str | None = None
    only_task: str | None = None
    is_checked: bool = True

    @property
    def is_peer(self) -> bool:
        """Whether it is not Shoal."""
        return not self.name.startswith("shoal-")


def racers() -> list[Racer]:
    """Return everybody, in the order of the table."""
    return [*_shoals(), _hooked_shoal(), *_scrapies(), *_crawlees(), _bare(), _wrk()]


def _shoals() -> list[Racer]:
    stores = {"sqlite": ("SQLite", None), "postgres": ("PostgreSQL", "postgres"), "redis": ("Redis", "redis")}
    return [
        Racer(
            name=f"shoal-{name}-{workers}",
            label=f"Shoal, {label}, {workers} worker{'s' * (workers > 1)}",
            command=_shoal(workers),
            survives="tasks and items",
            processes=workers,
            store=store,
        )
        for name, (label, store) in stores.items()
        for workers in (1, 2)
    ]


def _hooked_shoal() -> Racer:
    return Racer(
        name="shoal-hooks-1",
        label="Shoal, SQLite, 1 worker, a hook of each kind",
        command=_shoal(1, kind="_with_hooks"),
        survives="tasks and items",
    )


def _shoal(workers: int, kind: str = "") -> Command:
    def command(heat: Heat) -> Words:
        scraper = f"{RUNNERS / 'shoal_manual.py'}:{'linked' if heat.task == 'B' else 'known'}{kind}"
        queue = heat.store or f"sqlite:///{heat.folder / 'queue.db'}"
        places: Words = ["--urls-file", heat.urls, "--queue", queue, "--out", heat.out]
        options = ["--workers", str(workers), "--concurrency", str(CONCURRENCY)]
        program = Path(sys.executable).with_name("shoal")
        return [program, "run", scraper, *places, *options, "--allow-private", heat.host, "--json"]

    return command


def _scrapies() -> list[Racer]:
    return [
        Racer(name="scrapy", label="Scrapy", command=_scrapy({}), survives="nothing"),
        Racer(
            name="scrapy-jobdir",
            label="Scrapy, JOBDIR",
            command=_scrapy({"JOBDIR": "job"}),
            survives="tasks, when stopped cleanly",
        ),
        Racer(
            name="scrapy-redis",
            label="scrapy-redis",
            command=_scrapy(_SCRAPY_REDIS),
            survives="tasks that wait",
            store="redis",
        ),
    ]


def _scrapy(settings: Mapping[str, object]) -> Command:
    def command(heat: Heat) -> Words:
        store = {"REDIS_URL": heat.store} if heat.store else {}
        pairs = [f"{name}={value}" for name, value in {**_FULL_SPEED, **settings, **store}.items()]
        options = [word for pair in pairs for word in ("-s", pair)]
        return [heat.peers, "-m", "scrapy", "runspider", RUNNERS / "spiders.py", "-O", heat.out, *options]

    return command


def _crawlees() -> list[Racer]:
    kinds = {
        "memory": ("memory", "nothing"),
        "files": ("files", "tasks and items"),
        "sql": ("SQL", "tasks and items"),
    }
    return [
        Racer(
            name=f"crawlee-{name}",
            label=f"Crawlee (Parsel), {label}",
            command=_crawlee(name),
            survives=survives,
        )
        for name, (label, survives) in kinds.items()
    ]


def _crawlee(storage: str) -> Command:
    program = RUNNERS / "crawlee_parsel.py"
    return lambda heat: [heat.peers, program, storage, heat.task, heat.urls, heat.out]


def _bare() -> Racer:
    return Racer(
        name="bare",
        label="bare loop: aiohttp, selectolax, uvloop",
        command=lambda heat: [heat.peers, RUNNERS / "bare.py", heat.task, heat.urls, heat.out],
        survives="nothing",
    )


def _wrk() -> Racer:
    options = ["-t1", f"-c{CONCURRENCY}", f"-d{WRK_SECONDS}s", "-s"]
    return Racer(
        name="wrk",
        label="wrk, which only fetches",
        command=lambda heat: ["wrk", *options, RUNNERS / "every_page.lua", f"http://{heat.host}"],
        survives="nothing",
        only_task="A",
        is_checked=False,
    )

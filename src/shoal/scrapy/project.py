"""A Scrapy project, and one of its spiders as a scraper."""

import asyncio
import configparser
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from types import ModuleType, SimpleNamespace
from typing import Any, Self

from scrapy import Spider
from scrapy.settings import Settings
from scrapy.spiderloader import get_spider_loader

from shoal.core.errors import InvalidInput
from shoal.core.failures import message_of
from shoal.core.model import NOTHING, Run, Task
from shoal.core.text import shorten
from shoal.fleet.run.settings import change_settings
from shoal.queue.contract import Queue
from shoal.scrape.harvest import Harvest
from shoal.scrape.hooks import HookedRun, ScraperHooks
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.args import OpenArgs
from shoal.scrapy.bridge import EngineBridge
from shoal.scrapy.compat import call_start_requests, install_reactor
from shoal.scrapy.feeds import write_feeds
from shoal.scrapy.scheduler import IDLE_STEP, REQUEST_STEP, START_STEP, START_TASK
from shoal.scrapy.settings import check_settings, fates, is_by_class, read_attributes, scraper_settings

# The first is the user's; if it names none, both are set for get_project_settings() in spiders and pipelines.
SETTINGS_VARIABLE, OWN_VARIABLE = "SCRAPY_SETTINGS_MODULE", "SHOAL_SCRAPY_SETTINGS"
SKIP_BROKEN = "Install what is missing, or skip such modules: SPIDER_LOADER_WARN_ONLY = True"
OPEN_ADVICE = {
    "args": "Arguments of the spider are passed with -a NAME=VALUE",
    "parts": "To see which setting names it, run: shoal check PROJECT:SPIDER",
}
START_LEASE = timedelta(days=7)  # `start()` may go on for as long as the crawl
FEEDS_TIMEOUT = timedelta(days=1)

MakeBridge = Callable[[type[Spider], Settings], EngineBridge]


class SpiderScraper(Scraper):
    """A spider as a scraper with three steps: for `start()`, for each request, and for `spider_idle`."""

    bridge: EngineBridge
    _spider_class: type[Spider]
    _project: Settings
    _connect: MakeBridge
    _follows: Mapping[str, Any] = NOTHING  # the settings that follow from those of Scrapy

    @classmethod
    def of(cls, spider_class: type[Spider], project: Settings, connect: MakeBridge = EngineBridge) -> Self:
        """Return the scraper of a spider with the settings of its project; raises InvalidSetting.

        `connect` makes the bridge to the engine, from the spider and its settings.
        """
        made = cls(getattr(spider_class, "name", None) or spider_class.__name__)
        made._spider_class, made._project, made._connect = spider_class, project, connect
        return made._bind({})

    def group_settings(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Return typed settings; those of Scrapy, which are upper-case, are added to its own."""
        own = {name: value for name, value in typed.items() if not name.isupper()}
        upper = {name: value for name, value in typed.items() if name.isupper()}
        return own | ({"scrapy": {**self.settings.scrapy, **own.get("scrapy", {}), **upper}} if upper else {})

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed, of Shoal or of Scrapy."""
        other = super().replace(**changes)
        other._spider_class, other._project, other._connect = self._spider_class, self._project, self._connect
        other._follows = self._follows
        return other._bind(changes)

    def change(self, **changes: Any) -> None:
        """Change settings in place, also for what Scrapy's engine sends by itself."""
        super().change(**changes)
        self.bridge.read_settings(self.run_settings())

    def parts(self) -> Iterator[tuple[str, bool | None, str]]:
        """Yield what becomes of the project's settings, middlewares, pipelines and extensions."""
        if self._spider_class.start is call_start_requests:
            says = "called, as before Scrapy 2.16; newer code has: async def start(self)"
            yield "start_requests()", True, says
        yield from fates(self.bridge.settings)

    @property
    def for_run_hooks(self) -> Scraper:
        """A scraper that writes the feeds of a run when it has ended, without opening the spider."""
        scraper, settings = Scraper(self.name), self.bridge.settings
        if settings["FEED_URI"] or not all(map(is_by_class, settings.getdict("FEEDS").values())):

            async def feeds(run: HookedRun) -> None:
                await write_feeds(self._spider_class, settings, self.args or {}, run.resources.queue, run.id)

            scraper.on_run_finish(feeds, timeout=FEEDS_TIMEOUT)
        return scraper

    def _bind(self, changes: Mapping[str, Any]) -> Self:
        """Connect the steps with an engine that has the settings of this scraper."""
        settings = self._project.copy()
        settings.setdict(dict(self.settings.scrapy), priority="cmdline")
        self._spider_class.update_settings(settings)
        read_attributes(self._spider_class, settings)
        follows = scraper_settings(settings)
        # Only what is new: a setting of Scrapy does not take back those of Shoal that were changed before.
        new = {name: value for name, value in follows.items() if self._follows.get(name) != value}
        if "rate" in changes:
            new.pop("delay", None)
        self.settings, self._follows = self.settings.replace(**{**new, **changes}), follows
        self.bridge = self._connect(self._spider_class, settings)
        self.steps, self.hooks, self.resources = {}, ScraperHooks(), SimpleNamespace()
        self.observers, self.bridge.sites = [self.bridge], self.settings.sites
        self.start = (START_TASK,)
        self.declared_args = OpenArgs(self.name)
        self.args = self.args or {}
        self._define_steps()
        return self

    def _define_steps(self) -> None:
        bridge = self.bridge

        @self.step(name=REQUEST_STEP, fetch=None)
        async def send_request(task: Task) -> Harvest:
            return await bridge.run_request(task)

        @self.step(name=START_STEP, fetch=None, lease=START_LEASE)
        async def read_start(task: Task) -> Harvest:
            return await bridge.run_start(task)

        @self.step(name=IDLE_STEP, fetch=None)
        async def send_idle(task: Task) -> Harvest:
            return await bridge.run_idle()

        @self.on_start
        async def open_spider(resources: Any) -> None:
            try:
                await bridge.open(resources.queue, resources.run, self.args or {})
            except (ImportError, NameError, TypeError) as error:
                advice = OPEN_ADVICE["args" if isinstance(error, TypeError) else "parts"]
                raise InvalidInput(f"{message_of(error)}. {advice}") from error
            await self._obey_spider(resources.queue, resources.run)

        async def close_spider(resources: Any) -> None:
            await bridge.shut()

        # Pipelines that send what they have collected need longer than a hook usually does.
        example, limit = "async def close_spider(resources)", self.settings.lease
        self.hooks.add("on_finish", close_spider, example=example, limit=limit)

    async def _obey_spider(self, queue: Queue, run: Run) -> None:
        """Give the run the delay and the limit that a spider has set on itself, such as in `__init__`."""
        settings = Settings(self.bridge.settings)
        read_attributes(self.bridge.scheduler.crawler.spider, settings)
        wanted, before = scraper_settings(settings), self._follows
        # Not in place of what Shoal's settings say, such as those that `shoal set` has changed.
        own = {"delay": self.settings.delay.total_seconds(), "per_host": self.settings.per_host}
        changes = {name: wanted[name] for name in own if own[name] == before[name] != wanted[name]}
        if changes:
            await change_settings(queue, run.id, changes)
            self.change(**changes)


class SeveralSpiders(InvalidInput):
    """A project has several spiders, and none was named; `shoal check` lists the parts that all have."""

    def __init__(self, where: str, known: list[str], settings: Settings) -> None:
        self.parts = list(fates(settings))
        super().__init__(_unknown(where, "", known))


class ScrapyProject:
    """The folder of a `scrapy.cfg`, its settings and its spiders."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the settings that `scrapy.cfg` names; raises InvalidInput."""
        config = configparser.ConfigParser()
        config.read(folder / "scrapy.cfg")
        wanted = os.environ.get("SCRAPY_PROJECT", "default")
        typed = os.environ.get(SETTINGS_VARIABLE, "")
        if typed == os.environ.get(OWN_VARIABLE):
            typed = ""
        module = typed or config.get("settings", wanted, fallback="")
        if not module:
            raise InvalidInput(
                f"{folder / 'scrapy.cfg'} names no settings. Write in it, under [settings]: "
                f"{wanted} = {folder.name}.settings"
            )
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))  # it stays: middlewares are imported when a spider is opened
        if not typed:
            os.environ[SETTINGS_VARIABLE] = os.environ[OWN_VARIABLE] = module
        settings = Settings()
        with _explain(f"The settings {module} of the project {folder.name}", folder):
            settings.setmodule(module, priority="project")
        install_in_worker(settings)
        return cls(folder, settings)

    def names(self) -> list[str]:
        """Return the names of its spiders; raises InvalidInput if one of them cannot be imported."""
        with _explain(f"The spiders of the project {self.folder.name}", self.folder, SKIP_BROKEN):
            self._loader: Any = get_spider_loader(self.settings)
            return sorted(self._loader.list())

    def scraper(self, name: str) -> SpiderScraper:
        """Return the scraper of a spider, or of the only one; raises InvalidInput."""
        known = self.names()
        name = name or (known[0] if len(known) == 1 else "")
        if not name and known:
            raise SeveralSpiders(f"The project {self.folder.name}", known, self.settings)
        if name not in known:
            raise InvalidInput(_unknown(f"The project {self.folder.name}", name, known))
        return _checked(self._loader.load(name), self.settings)


@contextmanager
def _explain(
    what: str, folder: Path, advice: str = "Install what is missing, or correct it."
) -> Iterator[None]:
    """Turn any exception of an import into an InvalidInput with the line of the project to look at."""
    try:
        yield
    except Exception as error:
        frames = extract_tb(error.__traceback__)
        own = [f"{one.filename}:{one.lineno}" for one in frames if Path(one.filename).is_relative_to(folder)]
        if isinstance(error, SyntaxError):
            own = [f"{error.filename}:{error.lineno}"]
        where = f" ({own[-1].removeprefix(f'{folder}/')})" if own else ""
        reason = shorten(f"{type(error).__name__}: {message_of(error)}", 300)
        raise InvalidInput(f"{what} could not be imported: {reason}{where}. {advice}") from error


def install_in_worker(settings: Settings) -> None:
    """Install the reactor before spiders are imported, which may import it, if this process has a loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if settings.getbool("TWISTED_REACTOR_ENABLED"):
        install_reactor(loop)


def spiders_of(module: ModuleType) -> list[type[Spider]]:
    """Return the spiders that a module defines itself."""
    found = (one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, Spider))
    return [one for one in dict.fromkeys(found) if one.__module__ == module.__name__]


def standalone(
    module: ModuleType, spiders: Iterable[type[Spider]], name: str, home: Path | None
) -> SpiderScraper:
    """Return the scraper of a spider in a file, which may be one of a project; raises InvalidInput."""
    by_name = {getattr(one, "name", None) or one.__name__: one for one in spiders}
    by_class = {one.__name__: one for one in by_name.values()}
    chosen = {**by_class, **by_name}.get(name) if name else None
    if not name and len(by_name) == 1:
        chosen = next(iter(by_name.values()))
    if chosen is None:
        file = Path(module.__file__ or module.__name__).name
        raise InvalidInput(_unknown(file, name, sorted(by_name)))
    return _checked(chosen, ScrapyProject.read(home).settings if home else Settings())


def _checked(spider_class: type[Spider], project: Settings) -> SpiderScraper:
    made = SpiderScraper.of(spider_class, project)
    check_settings(made.bridge.settings)
    return made


def _unknown(where: str, name: str, known: list[str]) -> str:
    if not known:
        return f"{where} has no spider"
    if not name:
        return f"{where} has several spiders. Name one: {', '.join(known)}"
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(known)}."
    return f"{where} has no spider {name!r}. {hint}"

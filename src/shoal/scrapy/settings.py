"""The settings of a Scrapy project: what becomes of each on Shoal's workers."""

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from shoal.core.errors import InvalidSetting
from shoal.core.model import Stats

SCHEDULER = "shoal.scrapy.scheduler.EngineScheduler"
LIKELY_TYPO = 0.9  # how alike a name is to a setting's, from 0 to 1
# Items of one response that pass the pipelines at once. For each Scrapy makes an asyncio task, whether there
# are items or not: its 100 cost a quarter of a crawl, and without pipelines nothing waits.
FEW_ITEMS, WITHOUT_PIPELINES = 8, 1

# Settings with which another package would take the place of Shoal's queue.
REFUSED = {
    "SCHEDULER": "Shoal's queue takes its place: delete the line, and --queue names it",
    "DOWNLOADER": "Shoal needs Scrapy's own downloader: delete the line",
    "DUPEFILTER_CLASS": "The queue filters requests by their fingerprints: delete the line, and change what "
    "counts as the same with REQUEST_FINGERPRINTER_CLASS",
}
NO_DUPEFILTER = "scrapy.dupefilters.BaseDupeFilter"
# The limits that hold for all workers together, by what the run has stored.
ITEMS, PAGES, ERRORS = "CLOSESPIDER_ITEMCOUNT", "CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_ERRORCOUNT"
SECONDS_NO_ITEM, PAGES_NO_ITEM = "CLOSESPIDER_TIMEOUT_NO_ITEM", "CLOSESPIDER_PAGECOUNT_NO_ITEM"
FLEET_LIMITS = (ITEMS, PAGES, ERRORS, SECONDS_NO_ITEM, PAGES_NO_ITEM)
DELAY_WITHOUT_THROTTLE = 1.0  # seconds
NO_CLASSES = "the queue does not store the classes of items"
# Attributes of older spiders, and the settings that have taken their place.
ATTRIBUTES = {
    "download_delay": "DOWNLOAD_DELAY",
    "max_concurrent_requests": "CONCURRENT_REQUESTS_PER_DOMAIN",
}
ATTRIBUTE_PRIORITY = SETTINGS_PRIORITIES["spider"] - 1  # `custom_settings` say more
NO_LIMIT = 1_000  # requests at a time, where the setting is 0
COMPONENTS = ("ITEM_PIPELINES", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS")
# What the engine of a worker is told instead.
_OFF: dict[str, Any] = {"AUTOTHROTTLE_ENABLED": False, "TELNETCONSOLE_ENABLED": False, "JOBDIR": None}
OF_PROCESS = ("LOG_", "TELNETCONSOLE_", "JOBDIR", "FEEDS")  # used where `scrapy crawl` runs
# What the user should know or do, by how the names of the settings begin.
_NOT_USED: dict[str, str] = {
    "AUTOTHROTTLE_": "the delay of a host is DOWNLOAD_DELAY, or a second; after 429 and 503 it is paused",
    "TELNETCONSOLE_": "run: shoal top",
    "JOBDIR": "runs are always stored; to continue one, pass --resume",
    "RANDOMIZE_DOWNLOAD_DELAY": "the delay of a host has no random part, and no gap is shorter",
    "DOWNLOAD_DELAY_JITTER": "the delay of a host has no random part, and no gap is shorter",
    "SCHEDULER_": "requests are sent by priority, and then about breadth-first",
    "DUPEFILTER_DEBUG": "the queue drops the requests that it has already; the statistics count them",
    "LOG_": "warnings and errors are shown by shoal run, and --log-dir writes the log of each worker",
}
_EXPLAINED: dict[str, str] = {
    **dict.fromkeys(("FEEDS", "FEED_URI"), "written from the queue when the run has ended"),
    "DOWNLOAD_SLOTS": "for the whole fleet if it is a delay of a host that is longer than DOWNLOAD_DELAY; "
    "a shorter one is not used, and all else is by each worker",
    "SCHEDULER_START_MEMORY_QUEUE": "for requests of start() that are yielded in the same moment",
    "LOG_FORMATTER": "in each worker",
    "DOWNLOAD_DELAY": "for the whole fleet, kept by the queue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "for the whole fleet, kept by the queue",
    "MEMUSAGE_LIMIT_MB": "of each worker: the first one that reaches it ends the run",
    "CLOSESPIDER_TIMEOUT": "from the start of a worker: the first one that reaches it ends the run",
    **dict.fromkeys(FLEET_LIMITS, "for the whole fleet, by what its workers have stored"),
    "DUPEFILTER_CLASS": "the queue has each fingerprint once in a run",
}
PACKAGES_REFUSED = {
    "scrapy_redis": "its queue: delete its lines from the settings, and use --queue redis://…",
    "frontera": "its queue: delete its lines from the settings",
    "scrapy_deltafetch": "a file of one machine: use the scraper's setting dedup, as in -s dedup=30d",
}


class SettingFate(NamedTuple):
    """What becomes of a setting, a middleware, a pipeline or an extension."""

    what: str
    is_used: bool | None  # None if it cannot be used
    says: str

    def __str__(self) -> str:
        return f"{self.what} is {self.says}"


def check_settings(settings: BaseSettings, *, but: str = "") -> None:
    """Raise InvalidSetting for the first setting that cannot be used, other than this one."""
    for name, says in refusals(settings):
        if name != but:
            raise InvalidSetting(name, says)


def refusals(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yield the settings that cannot be used, and what to do."""
    for name, advice in REFUSED.items():
        if settings[name] not in (getattr(default_settings, name), SCHEDULER, NO_DUPEFILTER):
            yield name, f"is {_name_of(settings[name])}. {advice}"
    for group in COMPONENTS:
        for key, order in settings.getwithbase(group).items():
            package = _name_of(key).partition(".")[0]
            if order is not None and package in PACKAGES_REFUSED:
                yield group, f"has {_name_of(key)}, which needs {PACKAGES_REFUSED[package]}"


def is_by_class(feed: Mapping[str, Any]) -> bool:
    """Return whether a feed chooses items by what stored ones do not have."""
    return bool(feed.get("item_classes") or feed.get("item_filter"))


def fates(settings: BaseSettings) -> Iterator[SettingFate]:
    """Yield what becomes of every setting that the project has set, and of every component it uses."""
    refused, known = dict(refusals(settings)), vars(default_settings)
    for name in sorted(settings):
        if (settings.getpriority(name) or 0) == 0 or name in refused:
            continue
        if name not in known and (close := get_close_matches(name, known, n=1, cutoff=LIKELY_TYPO)):
            yield SettingFate(name, False, f"no setting of Scrapy. Did you mean {close[0]}?")
        says = next((says for start, says in _NOT_USED.items() if name.startswith(start)), None)
        if name in _EXPLAINED:
            yield SettingFate(name, True, _EXPLAINED[name])
        elif says and (settings[name] or name not in _OFF):
            yield SettingFate(name, False, f"not used: {says}")
        elif name in known and name not in COMPONENTS:
            yield SettingFate(name, True, "used by Scrapy in each worker")
    for uri, feed in settings.getdict("FEEDS").items():
        if is_by_class(feed):
            yield SettingFate("FEEDS", False, f"not used for {uri}: {NO_CLASSES}. Pass --out FILE")
    for group in COMPONENTS:
        for key, order in settings.getwithbase(group).items():
            own = not _name_of(key).startswith("scrapy.")
            if order is not None and own and _name_of(key).partition(".")[0] not in PACKAGES_REFUSED:
                yield _fate_of_component(group, key)


_SET = re.compile(r"(self\.\w+)(?:\s*:[^=\n]+)?\s*=\s*set\(\)")


def _fate_of_component(group: str, key: Any) -> SettingFate:
    try:
        component = load_object(key)
    except Exception as error:
        return SettingFate(group, None, f"{_name_of(key)}, which cannot be imported: {error}")
    says = f"{_name_of(key)}, in each worker"
    if group == "ITEM_PIPELINES" and (remembers := _own_set(component)):
        return SettingFate(group, False, f"{says}: of {remembers}, one worker does not see that of another")
    return SettingFate(group, True, says)


def _own_set(component: Any) -> str:
    """Return the attribute that is a set, as in a pipeline that drops duplicates; "" if there is none."""
    try:
        found = _SET.search(inspect.getsource(component))
    except (OSError, TypeError):  # made at runtime, or no class
        return ""
    return found[1] if found else ""


def engine_settings(settings: BaseSettings) -> dict[str, Any]:
    """Return what differs for the engine of a worker: the queue keeps the pace of hosts, not its slots."""
    items = FEW_ITEMS if settings.getwithbase("ITEM_PIPELINES") else WITHOUT_PIPELINES
    has_own = settings.getpriority("CONCURRENT_ITEMS")
    changes = _OFF | {
        "SCHEDULER": SCHEDULER,
        "CONCURRENT_ITEMS": settings["CONCURRENT_ITEMS"] if has_own else items,
        **dict.fromkeys(FLEET_LIMITS, 0),  # not those of one worker
        "FEEDS": {},  # written where the workers are started
        "FEED_URI": None,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_SLOTS": {
            name: {**one, "delay": 0} if _is_host(name) else one
            for name, one in settings.getdict("DOWNLOAD_SLOTS").items()
        },
        "CONCURRENT_REQUESTS_PER_DOMAIN": settings.getint("CONCURRENT_REQUESTS") or NO_LIMIT,
    }
    if "REMOTE_CONTROL_ENABLED" in settings:
        changes["REMOTE_CONTROL_ENABLED"] = False
    return changes


def read_attributes(spider: Any, settings: BaseSettings) -> None:
    """Set what an older spider has as attributes, unless its settings say more."""
    for name, setting in ATTRIBUTES.items():
        if hasattr(spider, name):
            settings.set(setting, getattr(spider, name), priority=ATTRIBUTE_PRIORITY)


def scraper_settings(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings of a scraper that follow from those of a project."""
    usual = DELAY_WITHOUT_THROTTLE if settings.getbool("AUTOTHROTTLE_ENABLED") else 0.0
    delay = settings.getfloat("DOWNLOAD_DELAY") or usual
    slots = {name: one.get("delay", 0) for name, one in settings.getdict("DOWNLOAD_SLOTS").items()}
    return {
        "sites": {name: {"delay": own} for name, own in slots.items() if _is_host(name) and own > delay},
        "delay": delay,
        "per_host": settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        or settings.getint("CONCURRENT_REQUESTS")
        or NO_LIMIT,
        "robots": False,  # Scrapy's middleware reads robots.txt
        "scope": "any",  # and its offsite middleware has the scope
        "timeout": settings.getfloat("DOWNLOAD_TIMEOUT") or 180,
        "lease": timedelta(minutes=15),  # for all that a request does, including its pipelines
        "failed_pages": "off",
    }


class FleetLimits:
    """Tells which limit a run has reached, from one look at its counts after the other."""

    def __init__(self, settings: BaseSettings) -> None:
        self._limits = {name: settings.getint(name) for name in FLEET_LIMITS}
        self._items: int | None = None
        self._since, self._pages = 0.0, 0  # when the last item came, and the pages until then

    def __bool__(self) -> bool:
        return any(self._limits.values())

    @property
    def needs_stats(self) -> bool:
        """Whether it goes by responses or errors of callbacks, which only the statistics of workers have."""
        return bool(self._limits[ERRORS] or self._limits[PAGES])

    def reached(self, counts: Stats, stats: Mapping[str, Any], now: float) -> str | None:
        """Return the reason to close the spider, as Scrapy words it; None if no limit is reached."""
        if counts.items != self._items:
            self._items, self._since, self._pages = counts.items, now, counts.completed
        found = {
            ITEMS: counts.items,
            PAGES: stats.get("response_received_count", 0),
            ERRORS: stats.get("spider_exceptions/count", 0),
            SECONDS_NO_ITEM: now - self._since,
            PAGES_NO_ITEM: counts.completed - self._pages,
        }
        over = (name.lower() for name, limit in self._limits.items() if limit and found[name] >= limit)
        return next(over, None)


def _is_host(slot: str) -> bool:
    """Tell whether a slot has the name of a host, rather than one that requests choose in their `meta`."""
    return "." in slot


def _name_of(value: Any) -> str:
    return value if isinstance(value, str) else f"{value.__module__}.{value.__qualname__}"

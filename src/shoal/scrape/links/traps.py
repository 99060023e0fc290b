"""Spider traps: sites that make up pages without end.

Each fetched page that fits a rule is counted. After LIMIT pages of one section or host, no more pages that
fit the rule are fetched. Every page is fetched by one worker, so the count of a fleet is a sum.
"""

import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import TypeVar

import msgspec

from shoal.core.model import Task
from shoal.scrape.links.url_parts import UrlParts, is_page_number, url_parts

LIMIT = 12_000  # pages: more than thirty years of days

# The rules, as they are reported.
MAZE, FILTERS, REPEATS = "maze in", "filters on", "repeated names on"
PAGING, PATTERN = "paging in", "pattern"

MIN_NEW = 2  # pages that a page of a maze leads to
MAX_BELOW = 4  # segments of a path up to which pages below another are taken for its parts
ENDED = 20  # pages of a maze that one page which ends somewhere outweighs
MIN_PARAMS = 3  # of a URL with filters
PER_VALUE = 5  # combinations of filters for each value of the one with most values
REPEATED = 3  # times that a name is in a path

MAX_COMBINATIONS = 20_000  # that are remembered of a host
MAX_FOLDERS = 100  # of a host that are sections; the others are one section
MAX_HOSTS, MAX_GROUPS = 500, 2_000  # that one worker remembers
SHARED_PART = 100  # a worker shares its counts whenever they have changed by this part of the limit

Value = TypeVar("Value")

_END = re.compile(r"(?:\.\w{1,5}|/)$")


class Recent(OrderedDict[str, Value]):
    """Values by name, made when they are first used; those used least recently are forgotten."""

    def __init__(self, make: Callable[[], Value], limit: int) -> None:
        super().__init__()
        self._make, self._limit = make, limit

    def __missing__(self, key: str) -> Value:
        if len(self) >= self._limit:
            self.popitem(last=False)
        value = self[key] = self._make()
        return value

    def use(self, key: str) -> Value:
        """Return a value, which is now the one used last."""
        value = self[key]
        self.move_to_end(key)
        return value


class FleetCount(msgspec.Struct):
    """The pages of a fleet that fit one rule, as far as one worker knows."""

    total: int = 0
    unshared: int = 0  # part of the total: pages of this worker that the others do not know of


class TrapCounts:
    """Counts pages by trap: the name of a rule and where it was met."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: Recent[FleetCount] = Recent(FleetCount, MAX_GROUPS)
        self.closed: set[str] = set()  # traps that have reached the limit

    def add(self, trap: str, pages: int = 1) -> None:
        """Count pages of this worker; a negative number takes them back."""
        count = self._counts.use(trap)
        count.total += pages
        count.unshared += pages
        self._close_if_full(trap, count)

    def unshared(self) -> dict[str, int]:
        """Return what the other workers should know, by trap."""
        least = max(1, self._limit // SHARED_PART)
        return {trap: one.unshared for trap, one in self._counts.items() if abs(one.unshared) >= least}

    def set_shared(self, trap: str, pages: int, total: int) -> None:
        """Record that so many pages of this worker were shared, which makes this total of the fleet."""
        count = self._counts.use(trap)
        count.unshared -= pages
        count.total = total + count.unshared
        self._close_if_full(trap, count)

    def _close_if_full(self, trap: str, count: FleetCount) -> None:
        if count.total >= self._limit:
            self.closed.add(trap)


class QueryValues(msgspec.Struct):
    """The values of the filters of a host, and the combinations in which they were met."""

    combinations: set[int] = msgspec.field(default_factory=set)
    values: defaultdict[str, set[int]] = msgspec.field(default_factory=lambda: defaultdict(set))

    def is_combination(self, address: UrlParts) -> bool:
        """Add a URL; tell whether there are far more combinations than values, so it leads to nothing new.

        Where each page has an id, there are as many values of the id as pages.
        """
        if len(self.combinations) >= MAX_COMBINATIONS:
            self.combinations.clear()
            self.values.clear()
        params = [("", address.path), *_filters(address)]
        self.combinations.add(hash(tuple(params)))
        for name, value in params:
            self.values[name].add(hash(value))
        return len(self.combinations) > PER_VALUE * max(map(len, self.values.values()))


class TrapRules:
    """The rules as one worker applies them; with `max_per_pattern`, that is the only rule."""

    def __init__(self, max_per_pattern: int | None) -> None:
        self._max_per_pattern = max_per_pattern
        self.counts = TrapCounts(max_per_pattern or LIMIT)
        self._followed: Recent[list[int]] = Recent(lambda: [0], MAX_GROUPS)  # links of this worker by pattern
        self._scores: Recent[list[int]] = Recent(lambda: [0], MAX_GROUPS)  # of mazes by section
        self._queries = Recent(QueryValues, MAX_HOSTS)
        self._folders: Recent[set[str]] = Recent(set, MAX_HOSTS)

    def find(self, url: str) -> str | None:
        """Return the trap that a page belongs to, if no more of its pages are fetched."""
        return self._find(url_parts(url)) if self.counts.closed else None

    def follow(self, url: str) -> str | None:
        """Return the trap that a new link belongs to, or None to follow it."""
        if self._max_per_pattern is None:
            return self.find(url)
        address = url_parts(url)
        followed = self._followed.use(address.pattern)
        if followed[0] >= self._max_per_pattern:
            return f"{PATTERN} {address.pattern}"
        followed[0] += 1
        return self._find(address)

    def count_page(self, page: Task, new: int, cross_links: int) -> None:
        """Count a fetched page by the rules that it fits.

        `new` are the pages that it leads to and that no other page of this worker does, `cross_links` the
        links to pages that were known.
        """
        if page.url is None or page.depth == 0:
            return  # a seed was chosen by the user
        address = url_parts(page.url)
        if self._max_per_pattern is not None:
            self.counts.add(f"{PATTERN} {address.pattern}")
            return
        self._count_maze(self.section_of(address), new, cross_links)
        if has_filters(address) and self._queries.use(address.host).is_combination(address):
            self.counts.add(f"{FILTERS} {address.host}")
        if has_repeats(address):
            self.counts.add(f"{REPEATS} {address.host}")

    def may_page(self, page: Task) -> bool:
        """Tell whether links to the next page may still add no depth; if so, count the page."""
        if self._max_per_pattern is not None:
            return True
        where = self.section_of(url_parts(page.url)) if page.url else f"step {page.step}"
        trap = f"{PAGING} {where}"
        if trap in self.counts.closed:
            return False
        self.counts.add(trap)
        return True

    def is_part_of_maze(self, url: str, page: str) -> bool:
        """Tell whether a link from a page to another would be one of a maze."""
        address = url_parts(url)
        # A page that has parts of its own (reviews, photos, views) is no maze, however many there are.
        is_part = _is_below(url, page) and len(address.segments) <= MAX_BELOW
        return not is_part and self.section_of(address) == self.section_of(url_parts(page))

    def section_of(self, address: UrlParts) -> str:
        """Return the section of a URL; all folders of a host after the first MAX_FOLDERS share one."""
        folders, section = self._folders.use(address.host), address.section
        if section in folders or len(folders) < MAX_FOLDERS:
            folders.add(section)
            return section
        return f"{address.host}/*/"

    def _find(self, address: UrlParts) -> str | None:
        traps = (
            [f"{PATTERN} {address.pattern}"]
            if self._max_per_pattern is not None
            else [
                f"{MAZE} {self.section_of(address)}",
                *([f"{FILTERS} {address.host}"] if has_filters(address) else []),
                *([f"{REPEATS} {address.host}"] if has_repeats(address) else []),
            ]
        )
        return next((trap for trap in traps if trap in self.counts.closed), None)

    def _count_maze(self, section: str, new: int, cross_links: int) -> None:
        score = self._scores.use(section)
        change = (1 if new >= MIN_NEW else -ENDED) - ENDED * cross_links
        before, score[0] = score[0], max(0, score[0] + change)
        if score[0] != before:
            self.counts.add(f"{MAZE} {section}", score[0] - before)


def has_filters(address: UrlParts) -> bool:
    """Tell whether a URL has so many parameters, page numbers aside, that they may be filters."""
    return len(address.params) >= MIN_PARAMS and len(_filters(address)) >= MIN_PARAMS


def has_repeats(address: UrlParts) -> bool:
    """Tell whether a name occurs again and again in a path, as wrong relative links make it."""
    names = [segment for segment in address.segments if not segment.isdecimal()]
    return len(set(names)) < len(names) and max(Counter(names).values()) >= REPEATED


def _is_below(url: str, page: str) -> bool:
    """Tell whether a URL is that of a page with something added: /lamp.html and /lamp/photos."""
    name = _END.sub("", page)
    return url.startswith(name) and not url[len(name) :][:1].isalnum()


def _filters(address: UrlParts) -> list[tuple[str, str]]:
    return [(name, value) for name, value in address.params if not is_page_number(name)]

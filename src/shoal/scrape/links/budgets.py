"""Limits on the number of URLs of one shape: few values in many combinations lead to nothing new.

A worker counts its own URLs exactly. It estimates those of the other workers from the sketches they share,
so that a page that two workers find counts once.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import date

import msgspec

from shoal.core.model import Task
from shoal.scrape.links.mazes import Section
from shoal.scrape.links.paging import is_page_number
from shoal.scrape.links.shape import UrlParts, without_ids
from shoal.scrape.links.sketch import Sketch
from shoal.scrape.links.traps import find_endless, is_calendar, is_recurring, is_variant

# Each of these occurs on ordinary sites too: only thousands of them tell that a program makes them up.
# All that one trap can use up together stays below 20,000 pages.
ENDLESS = 3_000  # URLs of a host that are very long or deep, repeat themselves, or have a date far away
RECURRING, PER_NAME = 10_000, 4  # URLs of a host with one segment three times in the path
CALENDAR = 12_000  # pages of one calendar: more than thirty years of days
VARIANTS, PER_PAGE = 4_000, 50  # sorted or printable views of a section's pages
PAIRS, PER_PAIR_VALUE = 4_000, 50  # URLs with two parameters, such as a category and a page number
FACETS, PER_FACET_VALUE = 8_000, 8  # URLs with more parameters
PER_PAGE_NUMBER = 2  # such views for each page number
MAZE = 10_000  # visited pages of a section that looks like a maze
MAZE_SAMPLE = 2_000  # those of them that were visited early, where an ordinary section would have ended
PAGING = 18_000  # links of a section to the next page that add no depth

MAX_BUDGETS = 2_000
MAX_NAMES = 16
VALUE_BITS, PAID_BITS = 4_096, 16_384
MIN_SHARED = 10  # URLs a worker counts before it shares them, or half of a smaller budget
URGENT = 0.1  # share of a budget that a worker spends before it shares it at once


class BudgetSpent(msgspec.Struct, frozen=True):
    """The counts of a fleet for one URL shape, as the workers exchange them."""

    paid: bytes
    values: dict[str, bytes]


_decode = msgspec.msgpack.Decoder(BudgetSpent).decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class ShapeBudget:
    """The number of URLs of one shape, and the values of their parameters."""

    __slots__ = ("_key", "_others", "_urls", "_values", "limit", "shared", "spent")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.spent = self.shared = 0  # by this worker; and how much of it the others know
        self.limit = 0.0
        self._others = 0.0
        self._urls = Sketch(PAID_BITS, key)
        self._values: dict[str, Sketch] = {}

    @property
    def total(self) -> float:
        """An estimate of what the whole fleet has spent."""
        return self.spent + self._others

    @property
    def is_unshared(self) -> bool:
        """Whether other workers should get these counts."""
        return self.spent > self.shared and self.spent >= min(MIN_SHARED, self.limit / 2)

    @property
    def is_urgent(self) -> bool:
        """Whether others would spend far too much if they got these counts late."""
        return self.spent - self.shared > max(MIN_SHARED, URGENT * self.limit)

    def add(self, name: str) -> None:
        """Count a URL, or another name of a page."""
        self.spent += 1
        self._urls.add(name)

    def add_values(self, values: Iterable[tuple[str, str]]) -> None:
        """Record the values of some parameters."""
        for name, value in values:
            if name in self._values or len(self._values) < MAX_NAMES:
                self._values_of(name).add(value)

    def most_values(self, *, of_page_numbers: bool | None = None) -> float:
        """Return the largest number of values of one parameter, of all or of some."""
        chosen = [
            values
            for name, values in self._values.items()
            if of_page_numbers is None or is_page_number(name) is of_page_numbers
        ]
        # All have as many bits, so the one with most of them hit has the largest estimate.
        return max(chosen, key=Sketch.count_hit).estimate if chosen else 0.0

    def exchange(self, shared: bytes | None) -> bytes:
        """Merge the counts of other workers, and return them together with this worker's."""
        received = _decode(shared) if shared else BudgetSpent(b"", {})
        others = self._urls.from_bytes(received.paid)
        self._others = max(0.0, self._urls.estimate_with(others) - self._urls.estimate)
        for name, data in received.values.items():
            if name in self._values or len(self._values) < MAX_NAMES:
                values = self._values_of(name)
                values.hit |= values.from_bytes(data)
        both = Sketch(PAID_BITS, self._key)
        both.hit = self._urls.hit | others
        spent = _encode(
            BudgetSpent(both.to_bytes(), {name: one.to_bytes() for name, one in self._values.items()})
        )
        if spent == shared:
            self.shared = self.spent
        return spent

    def _values_of(self, name: str) -> Sketch:
        if (values := self._values.get(name)) is None:
            values = self._values[name] = Sketch(VALUE_BITS, self._key)
        return values


class ShapeBudgets:
    """The budgets of one worker; the least recently used are evicted."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._key = os.urandom(16)
        self._budgets: OrderedDict[str, ShapeBudget] = OrderedDict()

    def set_shared_key(self, key: bytes) -> None:
        """Set the key of the sketches, shared by the workers of a run; before anything is spent."""
        self._key = key

    def unshared(self, limit: int) -> list[str]:
        """Return up to `limit` shapes whose counts other workers lack, the largest difference first."""
        shapes = [shape for shape, budget in self._budgets.items() if budget.is_unshared]
        shapes.sort(key=lambda shape: self._budgets[shape].shared - self._budgets[shape].spent)
        return shapes[:limit]

    @property
    def is_urgent(self) -> bool:
        """Whether other workers should get some counts at once."""
        return any(budget.is_urgent for budget in self._budgets.values())

    def exchange(self, shared: Mapping[str, bytes | None]) -> dict[str, bytes]:
        """Merge the shared counts of these shapes, and return the totals that differ from them."""
        found = {shape: self._budget(shape).exchange(known) for shape, known in shared.items()}
        return {shape: spent for shape, spent in found.items() if spent != shared[shape]}

    def spend(self, url: str, address: UrlParts, today: date) -> str | None:
        """Count a URL that was not seen before; return the name of the budget if it is used up."""
        if self._limit is not None:
            return self._spend_within(address.shape, self._limit, address)
        if reason := find_endless(url, address, today):
            return self._spend_within(f"{address.host} ({reason})", ENDLESS, address)
        if is_recurring(address.segments):
            return self._spend_on_recurring(address)
        if is_calendar(address):
            return self._spend_within(f"{address.section} (calendar)", CALENDAR, address)
        if is_variant(address):
            return self._spend_on_variant(address)
        return self._spend_on_query(address) if len(address.params) > 1 else None

    def spend_on_maze(self, section: Section, page: Task, *, is_sample: bool) -> bool:
        """Count a visited page of a section that looks like a maze; return whether it is one."""
        step, name = section
        kind, limit = ("sample of a maze", MAZE_SAMPLE) if is_sample else ("maze", MAZE)
        return not self._spend(f"{name} ({kind}, step {step})", limit, page.url or "")

    def spend_on_paging(self, section: str, name: str) -> bool:
        """Count a link to the next page that adds no depth; return whether there may be one more."""
        return self._limit is not None or self._spend(f"{section} (paging)", PAGING, name)

    def _spend_on_recurring(self, url: UrlParts) -> str | None:
        # Pages that a wrong relative link leads to have the names of other pages: there are few names.
        shape = f"{url.host} (recurring paths)"
        budget = self._budget(shape)
        budget.add_values([("", url.segments[-1])])
        return self._spend_within(shape, RECURRING + PER_NAME * budget.most_values(), url)

    def _spend_on_variant(self, url: UrlParts) -> str | None:
        shape = f"{url.section} (sorted and printed views)"
        budget = self._budget(shape)
        budget.add_values([("", url.path), *url.params])
        # A list without end has ever new page numbers: they allow for one or two orders only.
        pages, others = (budget.most_values(of_page_numbers=which) for which in (True, False))
        limit = VARIANTS + PER_PAGE * others + PER_PAGE_NUMBER * pages
        return self._spend_within(shape, limit, url)

    def _spend_on_query(self, url: UrlParts) -> str | None:
        is_pair = len(url.params) == 2
        # One budget for the whole host: all categories of a shop have the same filters.
        shape = f"{url.host}{without_ids(url.path)}?" if is_pair else f"{url.host} (filters)"
        budget = self._budget(shape)
        budget.add_values([("", url.path), *url.params])
        base, per_value = (PAIRS, PER_PAIR_VALUE) if is_pair else (FACETS, PER_FACET_VALUE)
        return self._spend_within(shape, base + per_value * budget.most_values(), url)

    def _spend_within(self, shape: str, limit: float, url: UrlParts) -> str | None:
        return None if self._spend(shape, limit, f"{url.path}?{url.params}") else shape

    def _spend(self, shape: str, limit: float, name: str) -> bool:
        budget = self._budget(shape)
        budget.limit = limit
        if budget.total >= limit:
            return False
        budget.add(name)
        return True

    def _budget(self, shape: str) -> ShapeBudget:
        if (budget := self._budgets.get(shape)) is not None:
            self._budgets.move_to_end(shape)
            return budget
        budget = self._budgets[shape] = ShapeBudget(self._key)
        if len(self._budgets) > MAX_BUDGETS:
            self._budgets.popitem(last=False)
        return budget

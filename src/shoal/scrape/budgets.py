"""How many addresses of one kind are taken: few values in many combinations bring nothing new."""

from collections import OrderedDict
from math import inf, log

from shoal.scrape.address import Address, without_ids
from shoal.scrape.traps import is_calendar, is_variant, recurs

RECURRING = 200  # addresses of a host with one name three times in the path
CALENDAR = 300  # sheets of one calendar
VARIANTS = 100  # sorted or printable views of a section's pages
PAIRS, PER_PAIR_VALUE = 500, 50  # addresses with two parameters, such as a category and a page number
FACETS, PER_FACET_VALUE = 300, 8  # addresses with more

MAX_BUDGETS = 2_000
MAX_NAMES = 16
_BITS = 4096


class Values:
    """How many different values were seen, estimated from which of a few bits they hit."""

    __slots__ = ("_hit",)

    def __init__(self) -> None:
        self._hit = 0

    def add(self, value: str) -> None:
        """Count a value that may have been seen before."""
        self._hit |= 1 << (hash(value) % _BITS)

    @property
    def number(self) -> float:
        """About how many there were; infinite when they can no longer be told apart."""
        free = _BITS - self._hit.bit_count()
        return _BITS * log(_BITS / free) if free else inf


class Budget:
    """What was spent on one kind of address, and the values that its parameters had."""

    __slots__ = ("_values", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self._values: dict[str, Values] = {}

    def note(self, address: Address) -> float:
        """Remember the values of an address and return the largest number of values that one name had."""
        for name, value in [("", address.path), *address.params]:
            if name in self._values or len(self._values) < MAX_NAMES:
                self._values.setdefault(name, Values()).add(value)
        return max(values.number for values in self._values.values())


class Budgets:
    """The budgets of one worker: the least recently used are forgotten."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def spend(self, address: Address) -> str | None:
        """Pay for an address that was not seen before; say which kind is used up if it cannot be paid."""
        if self._most is not None:
            return self._within(address.kind, self._most)
        if recurs(address.segments):
            return self._within(f"{address.host} (recurring paths)", RECURRING)
        if is_calendar(address):
            return self._within(f"{address.section} (calendar)", CALENDAR)
        if is_variant(address):
            return self._within(f"{address.section} (sorted and printed views)", VARIANTS)
        return self._spend_on_query(address) if len(address.params) > 1 else None

    def _spend_on_query(self, address: Address) -> str | None:
        if len(address.params) == 2:
            kind = f"{address.host}{without_ids(address.path)}?"
            values = self._of(kind).note(address)
            return self._within(kind, PAIRS + PER_PAIR_VALUE * values)
        # One budget for the whole host: every category of a shop has the same filters.
        kind = f"{address.host} (filters)"
        values = self._of(kind).note(address)
        return self._within(kind, FACETS + PER_FACET_VALUE * values)

    def _within(self, kind: str, most: float) -> str | None:
        budget = self._of(kind)
        if budget.spent >= most:
            return kind
        budget.spent += 1
        return None

    def _of(self, kind: str) -> Budget:
        budget = self._budgets.setdefault(kind, Budget())
        self._budgets.move_to_end(kind)
        if len(self._budgets) > MAX_BUDGETS:
            self._budgets.popitem(last=False)
        return budget

"""How many addresses of one kind are taken: few values in many combinations bring nothing new.

What was spent is known to a worker exactly, and of the rest of its fleet as far as it was told: from the bits
that the addresses of others hit, so that a page that two of them met is paid for once.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from shoal.scrape.address import Address, without_ids
from shoal.scrape.sketch import Sketch
from shoal.scrape.traps import is_calendar, is_variant, recurs

RECURRING = 200  # addresses of a host with one name three times in the path
CALENDAR = 300  # sheets of one calendar
VARIANTS = 100  # sorted or printable views of a section's pages
PAIRS, PER_PAIR_VALUE = 500, 50  # addresses with two parameters, such as a category and a page number
FACETS, PER_FACET_VALUE = 300, 8  # addresses with more

MAX_BUDGETS = 2_000
MAX_NAMES = 16
VALUE_BITS, PAID_BITS = 4_096, 16_384
WORTH_TELLING = 10  # addresses that one worker has paid for, or half of a budget that is smaller


class Spent(msgspec.Struct, frozen=True):
    """What a fleet has spent on one kind of address, as its workers tell each other."""

    paid: bytes
    values: dict[str, bytes]


_decode = msgspec.msgpack.Decoder(Spent).decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Budget:
    """What was spent on one kind of address, and the values that its parameters had."""

    __slots__ = ("_elsewhere", "_key", "_paid", "_values", "most", "spent", "told")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.spent = self.told = 0  # by this worker; and how much of it the others were told
        self.most = 0.0
        self._elsewhere = 0.0
        self._paid = Sketch(PAID_BITS, key)
        self._values: dict[str, Sketch] = {}

    @property
    def together(self) -> float:
        """What the whole fleet has spent, as far as is known."""
        return self.spent + self._elsewhere

    @property
    def is_worth_telling(self) -> bool:
        """Whether others should hear of it."""
        return self.spent > self.told and self.spent >= min(WORTH_TELLING, self.most / 2)

    def pay(self, address: Address) -> None:
        """Pay for an address."""
        self.spent += 1
        self._paid.add(f"{address.path}?{address.params}")

    def note(self, address: Address) -> float:
        """Remember the values of an address and return the largest number of values that one name had."""
        for name, value in [("", address.path), *address.params]:
            if name in self._values or len(self._values) < MAX_NAMES:
                self._values_of(name).add(value)
        return max(values.number for values in self._values.values())

    def exchange(self, shared: bytes | None) -> bytes:
        """Hear what others have spent, and return it together with what was spent here."""
        heard = _decode(shared) if shared else Spent(b"", {})
        others = self._paid.read(heard.paid)
        self._elsewhere = max(0.0, self._paid.number_with(others) - self._paid.number)
        for name, written in heard.values.items():
            if name in self._values or len(self._values) < MAX_NAMES:
                values = self._values_of(name)
                values.hit |= values.read(written)
        both = Sketch(PAID_BITS, self._key)
        both.hit = self._paid.hit | others
        spent = _encode(Spent(both.written(), {name: one.written() for name, one in self._values.items()}))
        if spent == shared:
            self.told = self.spent
        return spent

    def _values_of(self, name: str) -> Sketch:
        return self._values.setdefault(name, Sketch(VALUE_BITS, self._key))


class Budgets:
    """The budgets of one worker: the least recently used are forgotten."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._key = os.urandom(16)
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def share_by(self, key: bytes) -> None:
        """Count as all do who have this key, so that they can be told; before anything is spent."""
        self._key = key

    def worth_telling(self, most: int) -> list[str]:
        """Return the kinds that others should hear of, those first of which they know the least."""
        kinds = [kind for kind, budget in self._budgets.items() if budget.is_worth_telling]
        return sorted(kinds, key=lambda kind: self._budgets[kind].told - self._budgets[kind].spent)[:most]

    def exchange(self, shared: Mapping[str, bytes | None]) -> dict[str, bytes]:
        """Hear what others have spent on these kinds, and return what all have spent that is news to them."""
        found = {kind: self._of(kind).exchange(known) for kind, known in shared.items()}
        return {kind: spent for kind, spent in found.items() if spent != shared[kind]}

    def spend(self, address: Address) -> str | None:
        """Pay for an address that was not seen before; say which kind is used up if it cannot be paid."""
        if self._most is not None:
            return self._within(address.kind, self._most, address)
        if recurs(address.segments):
            return self._within(f"{address.host} (recurring paths)", RECURRING, address)
        if is_calendar(address):
            return self._within(f"{address.section} (calendar)", CALENDAR, address)
        if is_variant(address):
            return self._within(f"{address.section} (sorted and printed views)", VARIANTS, address)
        return self._spend_on_query(address) if len(address.params) > 1 else None

    def _spend_on_query(self, address: Address) -> str | None:
        if len(address.params) == 2:
            kind = f"{address.host}{without_ids(address.path)}?"
            values = self._of(kind).note(address)
            return self._within(kind, PAIRS + PER_PAIR_VALUE * values, address)
        # One budget for the whole host: every category of a shop has the same filters.
        kind = f"{address.host} (filters)"
        values = self._of(kind).note(address)
        return self._within(kind, FACETS + PER_FACET_VALUE * values, address)

    def _within(self, kind: str, most: float, address: Address) -> str | None:
        budget = self._of(kind)
        budget.most = most
        if budget.together >= most:
            return kind
        budget.pay(address)
        return None

    def _of(self, kind: str) -> Budget:
        budget = self._budgets.setdefault(kind, Budget(self._key))
        self._budgets.move_to_end(kind)
        if len(self._budgets) > MAX_BUDGETS:
            self._budgets.popitem(last=False)
        return budget

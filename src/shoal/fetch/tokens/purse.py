"""What one worker has of one token: requests that it has reserved, and those that are under way."""

import time
from collections.abc import Callable
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.model import Note
from shoal.fetch.notes import Notes
from shoal.fetch.tokens.budget import Budget, aged
from shoal.fetch.tokens.token import Token

TOPIC = "tokens"
KEEP = timedelta(days=30)
MOVED = 2.0  # seconds by which a reset must come later to be believed: less is a matter of rounding

Clock = Callable[[], float]
_decoder = msgspec.json.Decoder(Budget)
_encode = msgspec.json.Encoder().encode


def read_budget(note: Note) -> Budget:
    """Return a budget as it is now; one that cannot be read is begun anew."""
    try:
        return aged(_decoder.decode(note.value), note.age.total_seconds())
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Budget()


class Purse:
    """One worker's part of a token's budget."""

    def __init__(self, token: Token, clock: Clock = time.monotonic) -> None:
        self.token, self._clock = token, clock
        self._budget, self._at = Budget(), clock()
        self._stamp: int | None = None
        self.has_looked = False
        self.units = 0  # reserved and not sent
        self.epoch = -1  # of these
        self.in_flight = 0
        self.noted = 0  # what the fleet believes to be outstanding here
        self.drawn = 0  # requests in all
        self.last_used = clock()
        self._resets_at: float | None = None  # of the epoch, as this worker was told by the host itself
        self._resets_of = -1

    @property
    def outstanding(self) -> int:
        """Requests that may still reach the host."""
        return self.units + self.in_flight

    @property
    def age(self) -> float:
        """For how many seconds the fleet has not been asked."""
        return self._clock() - self._at

    def budget(self) -> Budget:
        """Return the budget as this worker knows it, as of now."""
        known = replace(self._budget, resets_in=self._ends_at() - self._at)
        return aged(known, self._clock() - self._at)

    def _ends_at(self) -> float:
        """Return when the epoch ends, by this worker's clock."""
        ends_at = self._at + self._budget.resets_in
        if self._resets_at is None or self._resets_of != self._budget.epoch or self._budget.is_shut:
            return ends_at
        # Each passing on makes a reset a little later than it is; what the host said does not.
        return min(ends_at, self._resets_at)

    def has_units(self) -> bool:
        """Whether a request may be sent without asking the fleet."""
        known = self._budget
        if known.is_free:
            return True
        is_over = known.is_known and self._clock() >= self._ends_at()
        if self.units and (is_over or known.epoch != self.epoch or known.retired):
            self.units = 0  # the window in which they were good is over
        return self.units > 0

    def reserve(self, units: int) -> None:
        """Take requests that were reserved with the last swap."""
        # Of the epoch that was written down, though it may have come to its end meanwhile.
        self.units, self.epoch = self.units + units, self._budget.epoch
        self.noted, self.last_used = self.outstanding, self._clock()

    def draw(self) -> int:
        """Take one request that is about to be sent; return its epoch."""
        if not self._budget.is_free:
            self.units -= 1
        self.in_flight += 1
        self.drawn += 1
        self.last_used = self._clock()
        return self._budget.epoch

    def heard(self, epoch: int, left: int | None, resets_in: timedelta | None) -> None:
        """Take what an answer told of the epoch in which it was asked for."""
        if epoch != self._budget.epoch:
            return
        if left is not None and self.epoch == epoch:
            self.units = min(self.units, left)
        if resets_in is not None:
            at = self._clock() + resets_in.total_seconds()
            if self._resets_of != epoch or self._resets_at is None or at > self._resets_at + MOVED:
                self._resets_at, self._resets_of = at, epoch
            else:
                self._resets_at = min(self._resets_at, at)

    def looked(self, note: Note | None) -> None:
        """Take what the fleet knows."""
        self._budget, self._stamp = (read_budget(note), note.stamp) if note else (Budget(), None)
        self._at, self.has_looked = self._clock(), True

    async def swap(self, queue: Notes, budget: Budget) -> bool:
        """Write down a budget that was made of the one that is known, unless somebody was quicker."""
        at = self._clock()  # from here on its times count, for they were true now
        note = await queue.swap_note(TOPIC, self.token.key, _encode(budget), stamp=self._stamp, ttl=KEEP)
        if note is None:
            return False
        self._budget, self._stamp, self._at = budget, note.stamp, at
        return True

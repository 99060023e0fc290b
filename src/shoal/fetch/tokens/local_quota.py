"""Requests of one token that one worker has reserved or in flight."""

import time
from collections.abc import Callable
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.model import Note
from shoal.fetch.shared_state import SharedState
from shoal.fetch.tokens.budget import TokenBudget, advance
from shoal.fetch.tokens.token import Token

TOPIC = "tokens"
BUDGET_TTL = timedelta(days=30)
MIN_RESET_SHIFT = 2.0  # seconds by which a reset must move to be accepted: less may be rounding

Clock = Callable[[], float]
_decoder = msgspec.json.Decoder(TokenBudget)
_encode = msgspec.json.Encoder().encode


def read_budget(note: Note) -> TokenBudget:
    """Return the current budget; one that cannot be read starts over."""
    try:
        return advance(_decoder.decode(note.value), note.age.total_seconds())
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return TokenBudget()


class LocalQuota:
    """Requests of one token reserved for this worker."""

    def __init__(self, token: Token, clock: Clock = time.monotonic) -> None:
        self.token, self._clock = token, clock
        self._budget, self._at = TokenBudget(), clock()
        self._stamp: int | None = None
        self.is_read = False
        self.units = 0  # reserved and not sent
        self.epoch = -1  # of these
        self.in_flight = 0
        self.published = 0  # outstanding requests as last published
        self.taken = 0  # requests in total
        self.last_used = clock()
        self._resets_at: float | None = None  # of the epoch, as the host reported to this worker
        self._resets_of = -1

    @property
    def outstanding(self) -> int:
        """Requests that may still reach the host."""
        return self.units + self.in_flight

    @property
    def age(self) -> float:
        """Seconds since the shared budget was read."""
        return self._clock() - self._at

    def budget(self) -> TokenBudget:
        """Return the budget as this worker knows it, as of now."""
        known = replace(self._budget, resets_in=self._ends_at() - self._at)
        return advance(known, self._clock() - self._at)

    def _ends_at(self) -> float:
        """Return when the epoch ends, by this worker's clock."""
        ends_at = self._at + self._budget.resets_in
        if self._resets_at is None or self._resets_of != self._budget.epoch or self._budget.is_shut:
            return ends_at
        # Each copy of a reset is a little later than the truth; the host's own is not.
        return min(ends_at, self._resets_at)

    def has_units(self) -> bool:
        """Whether a request may be sent without a new reservation."""
        known = self._budget
        if known.is_free:
            return True
        is_over = known.is_known and self._clock() >= self._ends_at()
        if self.units and (is_over or known.epoch != self.epoch or known.retired):
            self.units = 0  # the window in which they were valid is over
        return self.units > 0

    def reserve(self, units: int) -> None:
        """Add requests that were reserved with the last swap."""
        # Of the epoch that was written, though it may have ended in the meantime.
        self.units, self.epoch = self.units + units, self._budget.epoch
        self.published, self.last_used = self.outstanding, self._clock()

    def take(self) -> int:
        """Take one request that is about to be sent; return its epoch."""
        if not self._budget.is_free:
            self.units -= 1
        self.in_flight += 1
        self.taken += 1
        self.last_used = self._clock()
        return self._budget.epoch

    def apply_rate_limit(self, epoch: int, left: int | None, resets_in: timedelta | None) -> None:
        """Apply the rate limit of a response to the epoch of its request."""
        if epoch != self._budget.epoch:
            return
        if left is not None and self.epoch == epoch:
            self.units = min(self.units, left)
        if resets_in is not None:
            at = self._clock() + resets_in.total_seconds()
            if self._resets_of != epoch or self._resets_at is None or at > self._resets_at + MIN_RESET_SHIFT:
                self._resets_at, self._resets_of = at, epoch
            else:
                self._resets_at = min(self._resets_at, at)

    def apply_shared(self, note: Note | None) -> None:
        """Apply the shared budget."""
        self._budget, self._stamp = (read_budget(note), note.stamp) if note else (TokenBudget(), None)
        self._at, self.is_read = self._clock(), True

    async def swap(self, queue: SharedState, budget: TokenBudget) -> bool:
        """Write a budget that was derived from the known one, unless another worker wrote first."""
        at = self._clock()  # its times count from here, since they are true now
        note = await queue.swap_note(
            TOPIC, self.token.key, _encode(budget), stamp=self._stamp, ttl=BUDGET_TTL
        )
        if note is None:
            return False
        self._budget, self._stamp, self._at = budget, note.stamp, at
        return True

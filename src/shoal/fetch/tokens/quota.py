"""The quota of one token: the budget that all workers share, and what this worker has reserved of it."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import Note
from shoal.fetch.shared_state import SharedState
from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.budget import TokenBudget
from shoal.fetch.tokens.rate_limit_headers import RateLimit
from shoal.fetch.tokens.token import Token

TOPIC = "tokens"
BUDGET_TTL = timedelta(days=30)
ATTEMPTS = 50  # of a compare-and-swap that other workers compete for
HOLD_TIMEOUT_SECONDS = 70.0  # after which a reserved request has ended

Clock = Callable[[], float]
_decoder = msgspec.json.Decoder(TokenBudget)
_encode = msgspec.json.Encoder().encode


def read_budget(note: Note) -> TokenBudget:
    """Return the current budget; one that cannot be read starts over."""
    try:
        return budgets.advance(_decoder.decode(note.value), note.age.total_seconds())
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return TokenBudget()


@dataclass(slots=True)
class QuotaStore:
    """Where this worker shares the budgets of its tokens with all others."""

    queue: SharedState
    run_id: str
    worker: str = field(default_factory=lambda: secrets.token_hex(6))
    hold: float = HOLD_TIMEOUT_SECONDS

    async def read(self, quotas: "Sequence[Quota]") -> None:
        """Read the shared budgets of these tokens."""
        if quotas:
            found = await self.queue.notes(TOPIC, [quota.token.key for quota in quotas])
            for quota in quotas:
                quota.apply_shared(found.get(quota.token.key))


class Quota:
    """The requests of one token, shared by one compare-and-swap at a time."""

    def __init__(self, token: Token, store: QuotaStore, clock: Clock = time.monotonic) -> None:
        self.token, self._store, self._clock = token, store, clock
        self._budget, self._at = TokenBudget(), clock()
        self._stamp: int | None = None
        self.is_read = False
        self.units = 0  # reserved and not sent
        self.epoch = -1  # of these
        self.in_flight = 0
        self.published = 0  # outstanding requests as last published
        self.taken = 0  # requests in total
        self.last_used = clock()

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
        return budgets.advance(self._budget, self.age)

    def has_units(self) -> bool:
        """Whether a request may be sent without a new reservation."""
        known = self._budget
        if known.is_free:
            return True
        is_over = known.is_known and self.age >= known.resets_in
        if self.units and (is_over or known.epoch != self.epoch or known.retired):
            self.units = 0  # the window in which they were valid is over
        return self.units > 0

    def take(self) -> int:
        """Take one request that is about to be sent; return its epoch."""
        if not self._budget.is_free:
            self.units -= 1
        self.in_flight += 1
        self.taken += 1
        self.last_used = self._clock()
        return self._budget.epoch

    def lower_units(self, epoch: int, left: int) -> None:
        """Drop reserved requests of an epoch of which the host allows no more than `left`."""
        if epoch == self.epoch == self._budget.epoch:
            self.units = min(self.units, left)

    async def reserve(self, wanted: int) -> bool:
        """Reserve requests; tell whether there were any."""
        got = 0

        def reserving(now: TokenBudget) -> TokenBudget | None:
            nonlocal got
            if self.units and self.epoch != now.epoch:
                self.units = 0
            named = budgets.used_by(now, self._store.run_id, self.token.number)
            changed, got = budgets.reserve(
                named, self._store.worker, wanted, outstanding=self.outstanding, hold=self._store.hold
            )
            return changed if got else None

        if not await self._change(reserving):
            return False
        # Of the epoch that was written, though it may have ended in the meantime.
        self.units, self.epoch = self.units + got, self._budget.epoch
        self.published, self.last_used = self.outstanding, self._clock()
        return True

    async def report(self, change: Callable[[TokenBudget], TokenBudget] = lambda now: now) -> None:
        """Return what was reserved and not sent, publish what is still in flight, and a further change."""
        returned, epoch = self.units if self.has_units() else 0, self.epoch
        self.units = 0
        await self.publish(
            lambda now: change(
                budgets.report(
                    now, self._store.worker, outstanding=self.outstanding, returned=returned, epoch=epoch
                )
            )
        )
        self.published = self.outstanding

    async def open_epoch(self, rate_limit: RateLimit) -> None:
        """Begin an epoch with the rate limit of its first response."""
        worker = self._store.worker
        await self.publish(
            lambda now: budgets.open_epoch(now, worker, rate_limit, outstanding=self.outstanding)
        )
        self.published = self.outstanding

    async def publish(self, change: Callable[[TokenBudget], TokenBudget]) -> None:
        """Change the budget by what a host sent; a queue that fails does not fail the page."""
        with suppress(QueueError):
            await self._change(change)

    def apply_shared(self, note: Note | None) -> None:
        """Apply the shared budget."""
        self._budget, self._stamp = (read_budget(note), note.stamp) if note else (TokenBudget(), None)
        self._at, self.is_read = self._clock(), True

    async def _change(self, change: Callable[[TokenBudget], TokenBudget | None]) -> bool:
        """Write a changed budget, retrying while others write; False if there is nothing to change."""
        for _ in range(ATTEMPTS):
            now = self.budget()
            changed = change(now)
            if changed is None or changed == now:
                return False
            if await self._swap(changed):
                return True
            await asyncio.sleep(random.uniform(0, 0.005))
            await self._store.read([self])
        return False

    async def _swap(self, budget: TokenBudget) -> bool:
        """Write a budget that was derived from the known one, unless another worker wrote first."""
        at = self._clock()  # its times count from here, since they are true now
        note = await self._store.queue.swap_note(
            TOPIC, self.token.key, _encode(budget), stamp=self._stamp, ttl=BUDGET_TTL
        )
        if note is None:
            return False
        self._budget, self._stamp, self._at = budget, note.stamp, at
        return True

"""Shares the requests of many tokens: each is reserved before it is sent, for the whole fleet."""

import asyncio
import logging
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.commands import run_command
from shoal.core.errors import NoTokenLeft, QueueError, ShoalError, TokensResting
from shoal.core.model import SECOND
from shoal.core.tasks import wait_for_event, watched
from shoal.fetch.shared_state import SharedState, secret_of
from shoal.fetch.singleflight import SingleFlight
from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.budget import TokenBudget
from shoal.fetch.tokens.quota import Clock, Quota, QuotaStore
from shoal.fetch.tokens.rate_limit_headers import RateLimit
from shoal.fetch.tokens.token import Token, TokenSource, make_tokens

log = logging.getLogger("shoal.tokens")

SALT = "tokens"  # the key of the secret that token names are derived from
MAINTENANCE_INTERVAL = timedelta(seconds=0.1)
IDLE_TIMEOUT_SECONDS = 0.2  # after which reserved requests are returned
RESET_SOON = 1.0  # seconds before the end of an epoch
# Until a token that cannot be used is read again, unless it resets sooner.
READ_INTERVAL_SECONDS = 5.0
MAX_RESET_WAIT = 0.3  # seconds that a request waits for a reset instead of being postponed
MIN_POLL, MAX_POLL = 0.01, 0.3  # seconds between two reads while another worker probes a token
PROBE_TIMEOUT_SECONDS = 5.0
NO_TOKEN_WAIT = timedelta(seconds=15)
LONG_REST = 30.0  # seconds of a pause that is worth a warning
WARN_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Permit:
    """One request that may be sent with a token."""

    quota: Quota
    epoch: int

    @property
    def token(self) -> Token:
        """The token to send it with."""
        return self.quota.token


class TokenPool:
    """The tokens of one worker, whose budgets the fleet shares through notes."""

    def __init__(
        self, queue: SharedState, source: TokenSource, salt: bytes, *, run_id: str, clock: Clock
    ) -> None:
        self.store = QuotaStore(queue, run_id)
        self._source, self._salt, self._clock = source, salt, clock
        self._quotas: dict[str, Quota] = {}
        self._waiting = 0  # callers of `acquire`
        self._reserving: SingleFlight[bool] = SingleFlight()
        self._is_closed = False
        self._maintaining: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._turn, self._read_at, self._warned_at = 0, clock(), float("-inf")

    @classmethod
    async def open(
        cls, queue: SharedState, source: TokenSource, *, run_id: str, clock: Clock = time.monotonic
    ) -> "TokenPool":
        """Read the tokens; raises InvalidSetting if there are none."""
        pool = cls(queue, source, await secret_of(queue, SALT), run_id=run_id, clock=clock)
        pool._set_tokens(await source.read())
        return pool

    @property
    def tokens(self) -> list[Token]:
        """The current tokens."""
        return [quota.token for quota in self._quotas.values()]

    async def acquire(self) -> Permit:
        """Return a permit for one request; raises TokensResting or NoTokenLeft."""
        if self._maintaining is None:
            self._maintaining = watched(asyncio.create_task(self._maintain()))
        self._waiting += 1
        try:
            return await self._acquire()
        except QueueError as error:
            raise TokensResting(f"The token budgets cannot be read: {error}", 2 * SECOND) from error
        finally:
            self._waiting -= 1

    def take_another(self, permit: Permit) -> Permit | None:
        """Return a further permit for the same token, if one is reserved: for a redirect."""
        return Permit(permit.quota, permit.quota.take()) if permit.quota.has_units() else None

    def give_back(self, permit: Permit) -> None:
        """Return a permit that was not used."""
        permit.quota.in_flight -= 1
        if permit.epoch == permit.quota.epoch and not permit.quota.budget().is_free:
            permit.quota.units += 1

    async def finish(self, permit: Permit, rate_limit: RateLimit | None = None) -> None:
        """Record that a request has ended, and its rate limit; None if the response has no valid one."""
        quota = permit.quota
        quota.in_flight -= 1
        if rate_limit is not None:
            await self._apply_rate_limit(quota, permit.epoch, rate_limit)
        elif quota.budget().is_probed:
            await quota.report()
        self._news.set()

    async def pause(self, permit: Permit, rate_limit: RateLimit) -> None:
        """Pause a token that its host calls exhausted."""
        quota = permit.quota
        quota.in_flight -= 1
        seconds = _pause_seconds(rate_limit)
        await quota.report(lambda now: budgets.pause(now, seconds))
        rests_for = quota.budget().resets_in
        log.info("%s is paused for %.0f s: its host calls it exhausted", quota.token.name, rests_for)
        self._news.set()

    async def record_rejection(self, permit: Permit, page: str, why: str) -> None:
        """Record that a page rejected a token; one that two pages reject is retired."""
        quota = permit.quota
        quota.in_flight -= 1
        was_retired = bool(quota.budget().retired)
        await quota.report(lambda now: budgets.record_rejection(now, page, why))
        if quota.budget().retired and not was_retired:
            details = run_command("tokens")
            log.warning("%s was retired: %s. Details: %s", quota.token.name, why, details)
        self._news.set()

    async def close(self) -> None:
        """Return what was reserved and not used."""
        self._is_closed = True
        self._news.set()
        if self._maintaining:
            self._maintaining.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintaining
        if "" in self._reserving:  # what it reserves is to be returned too
            with suppress(ShoalError):
                await self._reserving.do("", self._reserve)
        for quota in self._quotas.values():
            if quota.published:
                await quota.report()

    async def _apply_rate_limit(self, quota: Quota, epoch: int, rate_limit: RateLimit) -> None:
        budget, left = quota.budget(), rate_limit.left
        if left is not None:
            quota.lower_units(epoch, left)
        if epoch == budget.epoch and not budget.is_known:
            await quota.open_epoch(rate_limit)
        elif epoch == budget.epoch and left is not None and _is_much_less(left, budget):
            await quota.publish(lambda now: budgets.lower(now, left))
        if budget.rejections and not budget.retired:
            await quota.publish(budgets.clear_rejections)

    def _set_tokens(self, texts: list[str]) -> None:
        tokens = make_tokens(texts, self._salt, self._source.bucket)
        self._quotas = {
            token.key: self._quotas.get(token.key) or Quota(token, self.store, self._clock)
            for token in tokens
        }
        self._turn = random.randrange(len(tokens))

    def _take_reserved(self) -> Permit | None:
        ready = [quota for quota in self._quotas.values() if quota.is_read and quota.has_units()]
        if not ready:
            return None
        quota = min(ready, key=lambda one: one.taken)
        return Permit(quota, quota.take())

    # Reserving

    async def _acquire(self) -> Permit:
        wait, began = MIN_POLL, self._clock()
        while (permit := self._take_reserved()) is None:
            if self._is_closed:
                raise TokensResting("The token pool is closing", SECOND)
            self._news.clear()
            # One reservation for all that wait; a caller that is cancelled does not interrupt it.
            if await self._reserving.do("", self._reserve):
                wait, began = MIN_POLL, self._clock()
                continue
            known = [quota.budget() for quota in self._quotas.values()]
            if any(one.is_probed for one in known) and self._clock() - began < PROBE_TIMEOUT_SECONDS:
                await wait_for_event(self._news, wait)
                wait = min(2 * wait, MAX_POLL)
            else:
                await self._wait_for_reset(known)
        return permit

    async def _reserve(self) -> bool:
        """Reserve from one token, the next in turn that has something left; tell whether that worked."""
        await self.store.read([quota for quota in self._quotas.values() if self._should_read(quota)])
        quotas = list(self._quotas.values())
        self._turn += 1
        for place in range(len(quotas)):
            quota = quotas[(self._turn + place) % len(quotas)]
            if quota.has_units() or await quota.reserve(self._waiting):
                return True
        return False

    def _should_read(self, quota: Quota) -> bool:
        budget = quota.budget()
        is_settled = budget.is_known or budget.retired
        return not (quota.is_read and is_settled) or quota.age > READ_INTERVAL_SECONDS

    # Waiting

    async def _wait_for_reset(self, known: list[TokenBudget]) -> None:
        """Wait for a reset that is near; else raise TokensResting or NoTokenLeft."""
        alive = [one for one in known if not one.retired]
        if not alive:
            self._warn(f"No token is left: all {len(known)} were rejected. {self._source.advice}")
            raise NoTokenLeft(len(known), self._source.advice, NO_TOKEN_WAIT)
        seconds = min(max(one.resets_in, 0.0) if one.is_known else 1.0 for one in alive)
        if seconds <= MAX_RESET_WAIT:
            await asyncio.sleep(seconds + 0.005)
            return
        if seconds >= LONG_REST:
            self._warn(_pause_message(len(alive), seconds))
        raise TokensResting(_pause_message(len(alive), seconds), timedelta(seconds=seconds))

    def _warn(self, text: str) -> None:
        if self._clock() > self._warned_at + WARN_INTERVAL_SECONDS:
            self._warned_at = self._clock()
            log.warning(text)

    # Maintenance

    async def _maintain(self) -> None:
        """Return idle reservations, and read the tokens again where they may change."""
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL.total_seconds())
            for quota in list(self._quotas.values()):
                if self._should_report(quota):
                    await quota.report()
            if self._clock() > self._read_at + self._source.read_again:
                await self._read_again()

    def _should_report(self, quota: Quota) -> bool:
        if quota.published <= quota.in_flight or self._clock() - quota.last_used < IDLE_TIMEOUT_SECONDS:
            return False
        # Ended requests matter at the end of an epoch; until then the next reservation publishes them.
        return bool(quota.units or not quota.in_flight or quota.budget().resets_in < RESET_SOON)

    async def _read_again(self) -> None:
        self._read_at = self._clock()
        try:
            texts = await self._source.read()
        except ShoalError as error:
            log.warning("The old tokens stay in use: %s", error)
            return
        if {token.text for token in self.tokens} != set(texts):
            self._set_tokens(texts)


def _is_much_less(left: int, budget: TokenBudget) -> bool:
    """Tell whether a host reports so much less than the fleet assumes that all must know at once."""
    believed = budget.left
    if believed is None:
        return True
    return left < believed - (budget.limit or believed) // 10 or (left == 0 and believed > 0)


def _pause_seconds(rate_limit: RateLimit) -> float | None:
    waits = [rate_limit.retry_after, None if rate_limit.left else rate_limit.resets_in]
    return max((wait.total_seconds() for wait in waits if wait), default=None)


def _pause_message(count: int, seconds: float) -> str:
    tokens = "The token is paused" if count == 1 else f"All {count} tokens are paused"
    return f"{tokens}; the next request may be sent in {seconds:.0f} s"

"""Shares the requests of many tokens: each is reserved before it is sent, for the whole fleet.

This is the quota of API tokens; the rate limit of hosts is kept by the queue at the claim.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import msgspec

from shoal.core.commands import run_command
from shoal.core.errors import NoTokenLeft, QueueError, ShoalError, TokensResting
from shoal.core.model import SECOND
from shoal.core.tasks import wait_for_event, watched
from shoal.fetch.shared_state import SharedState, secret_of
from shoal.fetch.tokens.budget import TokenBudget
from shoal.fetch.tokens.local_quota import Clock, LocalQuota
from shoal.fetch.tokens.rate_limit_headers import RateLimit
from shoal.fetch.tokens.shared_quota import SharedQuota
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


class Permit(msgspec.Struct, frozen=True):
    """One request that may be sent with a token."""

    quota: LocalQuota
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
        self.shared = SharedQuota(queue, run_id)
        self._source, self._salt, self._clock = source, salt, clock
        self._quotas: dict[str, LocalQuota] = {}
        self._waiting: deque[asyncio.Future[Permit]] = deque()
        self._reserving: asyncio.Task[None] | None = None
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
        if not self._waiting and (permit := self._take_reserved()):
            return permit
        future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._reserving is None:
            self._reserving = watched(asyncio.create_task(self._reserve_for_all()))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                self.give_back(future.result())
            raise

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
            await self.shared.report(quota)
        self._news.set()

    async def pause(self, permit: Permit, rate_limit: RateLimit) -> None:
        """Pause a token that its host calls exhausted."""
        quota = permit.quota
        quota.in_flight -= 1
        quota.units = 0
        await self.shared.pause(quota, _pause_seconds(rate_limit))
        rests_for = quota.budget().resets_in
        log.info("%s is paused for %.0f s: its host calls it exhausted", quota.token.name, rests_for)
        self._news.set()

    async def record_rejection(self, permit: Permit, page: str, why: str) -> None:
        """Record that a page rejected a token; one that two pages reject is retired."""
        quota = permit.quota
        quota.in_flight -= 1
        was_retired = bool(quota.budget().retired)
        await self.shared.report(quota)
        await self.shared.record_rejection(quota, page, why)
        if quota.budget().retired and not was_retired:
            details = run_command("tokens")
            log.warning("%s was retired: %s. Details: %s", quota.token.name, why, details)
        self._news.set()

    async def close(self) -> None:
        """Return what was reserved and not used."""
        for task in (self._maintaining, self._reserving):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._fail(lambda: TokensResting("The token pool is closing", SECOND))
        for quota in self._quotas.values():
            if quota.published:
                await self.shared.report(quota)

    async def _apply_rate_limit(self, quota: LocalQuota, epoch: int, rate_limit: RateLimit) -> None:
        quota.apply_rate_limit(epoch, rate_limit.left, rate_limit.resets_in)
        budget = quota.budget()
        is_of_now = epoch == budget.epoch
        if is_of_now and not budget.is_known:
            await self.shared.open(quota, rate_limit)
        elif is_of_now and rate_limit.left is not None and _is_much_less(rate_limit.left, budget):
            await self.shared.lower(quota, rate_limit.left)
        if budget.rejections and not budget.retired:
            await self.shared.clear_rejections(quota)

    def _set_tokens(self, texts: list[str]) -> None:
        tokens = make_tokens(texts, self._salt, self._source.bucket)
        self._quotas = {
            token.key: self._quotas.get(token.key) or LocalQuota(token, self._clock) for token in tokens
        }
        self._turn = random.randrange(len(tokens))

    def _take_reserved(self) -> Permit | None:
        ready = [quota for quota in self._quotas.values() if quota.is_read and quota.has_units()]
        if not ready:
            return None
        quota = min(ready, key=lambda one: one.taken)
        return Permit(quota, quota.take())

    # Reserving

    async def _reserve_for_all(self) -> None:
        """Reserve requests until no caller waits."""
        try:
            await self._reserve_until_served()
        except QueueError as error:
            reason = f"The token budgets cannot be read: {error}"
            self._fail(lambda: TokensResting(reason, 2 * SECOND))
        except Exception:
            self._fail(lambda: TokensResting("The token budgets are not known", 2 * SECOND))
            raise
        finally:
            self._reserving = None

    async def _reserve_until_served(self) -> None:
        wait, began = MIN_POLL, self._clock()
        while self._serve():
            self._news.clear()
            if await self._reserve(len(self._waiting)):
                wait, began = MIN_POLL, self._clock()
                continue
            budgets_now = [quota.budget() for quota in self._quotas.values()]
            if any(one.is_probed for one in budgets_now) and self._clock() - began < PROBE_TIMEOUT_SECONDS:
                await wait_for_event(self._news, wait)
                wait = min(2 * wait, MAX_POLL)
            elif not await self._wait_for_reset(budgets_now):
                return

    def _serve(self) -> int:
        """Give reserved permits to the waiting callers; return how many still wait."""
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
            elif permit := self._take_reserved():
                self._waiting.popleft().set_result(permit)
            else:
                break
        return len(self._waiting)

    async def _reserve(self, wanted: int) -> bool:
        """Reserve from one token, the next in turn that has something left; tell whether that worked."""
        await self.shared.read([quota for quota in self._quotas.values() if self._should_read(quota)])
        quotas = list(self._quotas.values())
        self._turn += 1
        for place in range(len(quotas)):
            quota = quotas[(self._turn + place) % len(quotas)]
            if quota.has_units() or await self.shared.reserve(quota, wanted):
                return True
        return False

    def _should_read(self, quota: LocalQuota) -> bool:
        budget = quota.budget()
        is_settled = budget.is_known or budget.retired
        return not (quota.is_read and is_settled) or quota.age > READ_INTERVAL_SECONDS

    # Waiting

    async def _wait_for_reset(self, known: list[TokenBudget]) -> bool:
        """Wait for a reset that is near; else postpone all waiting requests, and return False."""
        alive = [one for one in known if not one.retired]
        if not alive:
            self._warn(f"No token is left: all {len(known)} were rejected. {self._source.advice}")
            self._fail(lambda: NoTokenLeft(len(known), self._source.advice, NO_TOKEN_WAIT))
            return False
        seconds = min(max(one.resets_in, 0.0) if one.is_known else 1.0 for one in alive)
        if seconds <= MAX_RESET_WAIT:
            await asyncio.sleep(seconds + 0.005)
            return True
        if seconds >= LONG_REST:
            self._warn(_pause_message(len(alive), seconds))
        self._fail(lambda: TokensResting(_pause_message(len(alive), seconds), timedelta(seconds=seconds)))
        return False

    def _fail(self, error: Callable[[], Exception]) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error())
                future.exception()  # retrieved, though its caller may have been cancelled

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
                    await self.shared.report(quota)
            if self._clock() > self._read_at + self._source.read_again:
                await self._read_again()

    def _should_report(self, quota: LocalQuota) -> bool:
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

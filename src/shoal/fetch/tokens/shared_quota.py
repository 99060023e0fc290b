"""Reserves requests from the budgets that the fleet shares, and publishes results and rate limits."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.fetch.shared_state import SharedState
from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.budget import TokenBudget
from shoal.fetch.tokens.local_quota import TOPIC, LocalQuota
from shoal.fetch.tokens.rate_limit_headers import RateLimit

ATTEMPTS = 50  # of a compare-and-swap that other workers compete for
HOLD_TIMEOUT_SECONDS = 70.0  # after which a reserved request has ended


class SharedQuota:
    """Changes the budgets that a worker shares with all others, one compare-and-swap at a time."""

    def __init__(self, queue: SharedState, run_id: str) -> None:
        self._queue, self._run, self._me = queue, run_id, secrets.token_hex(6)
        self.hold = HOLD_TIMEOUT_SECONDS

    async def read(self, quotas: Sequence[LocalQuota]) -> None:
        """Read the shared budgets of these tokens."""
        if quotas:
            found = await self._queue.notes(TOPIC, [quota.token.key for quota in quotas])
            for quota in quotas:
                quota.apply_shared(found.get(quota.token.key))

    async def reserve(self, quota: LocalQuota, wanted: int) -> bool:
        """Reserve requests of a token; tell whether there were any."""
        got = 0

        def reserving(now: TokenBudget) -> TokenBudget | None:
            nonlocal got
            if quota.units and quota.epoch != now.epoch:
                quota.units = 0
            named = budgets.used_by(now, self._run, quota.token.number)
            changed, got = budgets.reserve(
                named, self._me, wanted, outstanding=quota.outstanding, hold=self.hold
            )
            return changed if got else None

        if not await self._change(quota, reserving):
            return False
        quota.reserve(got)
        return True

    async def report(self, quota: LocalQuota) -> None:
        """Return what was reserved and not sent, and publish what is still in flight."""
        returned, epoch = quota.units if quota.has_units() else 0, quota.epoch
        quota.units = 0

        def reporting(now: TokenBudget) -> TokenBudget:
            return budgets.report(
                now, self._me, outstanding=quota.outstanding, returned=returned, epoch=epoch
            )

        await self._publish(quota, reporting)
        quota.published = quota.outstanding

    async def open(self, quota: LocalQuota, rate_limit: RateLimit) -> None:
        """Begin an epoch with the rate limit of its first response."""
        await self._publish(
            quota, lambda now: budgets.open_epoch(now, self._me, rate_limit, outstanding=quota.outstanding)
        )
        quota.published = quota.outstanding

    async def pause(self, quota: LocalQuota, seconds: float | None) -> None:
        """Pause a token: for `seconds`, or until its reset, or for a minute."""

        def paused(now: TokenBudget) -> TokenBudget:
            known = now.resets_in if now.is_known and now.resets_in > 0 else budgets.DEFAULT_COOLDOWN
            reported = budgets.report(now, self._me, outstanding=quota.outstanding)
            return budgets.pause(reported, known if seconds is None else seconds)

        await self._publish(quota, paused)
        quota.published = quota.outstanding

    async def lower(self, quota: LocalQuota, left: int) -> None:
        """Publish that less is left than the fleet assumes."""
        await self._publish(quota, lambda now: budgets.lower(now, left))

    async def record_rejection(self, quota: LocalQuota, page: str, why: str) -> None:
        """Publish that a page rejected a token."""
        await self._publish(quota, lambda now: budgets.record_rejection(now, page, why))

    async def clear_rejections(self, quota: LocalQuota) -> None:
        """Publish that a token was accepted."""
        await self._publish(quota, budgets.clear_rejections)

    async def _publish(self, quota: LocalQuota, change: Callable[[TokenBudget], TokenBudget]) -> None:
        """Change a budget by what a host sent; a queue that fails does not fail the page."""
        with suppress(QueueError):
            await self._change(quota, change)

    async def _change(self, quota: LocalQuota, change: Callable[[TokenBudget], TokenBudget | None]) -> bool:
        """Write a changed budget, retrying while others write; False if there is nothing to change."""
        for _ in range(ATTEMPTS):
            now = quota.budget()
            changed = change(now)
            if changed is None or changed == now:
                return False
            if await quota.swap(self._queue, changed):
                return True
            await asyncio.sleep(random.uniform(0, 0.005))
            await self.read([quota])
        return False

"""Where a worker deals with the fleet: it reserves requests, reports what is over, tells what hosts say."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.fetch.notes import Notes
from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.budget import Budget
from shoal.fetch.tokens.purse import TOPIC, Purse
from shoal.fetch.tokens.told import Told

TRIES = 50  # to write down a budget that others write too
HOLD = 70.0  # seconds in which a request that was reserved is over


class Desk:
    """Changes the budgets that a worker shares with all others, one swap at a time."""

    def __init__(self, queue: Notes, run_id: str) -> None:
        self._queue, self._run, self._me = queue, run_id, secrets.token_hex(6)
        self.hold = HOLD

    async def look(self, purses: Sequence[Purse]) -> None:
        """Learn what the fleet knows of these tokens."""
        if purses:
            found = await self._queue.notes(TOPIC, [purse.token.key for purse in purses])
            for purse in purses:
                purse.looked(found.get(purse.token.key))

    async def reserve(self, purse: Purse, wanted: int) -> bool:
        """Reserve requests of a token; tell whether there were any."""
        got = 0

        def reserving(now: Budget) -> Budget | None:
            nonlocal got
            if purse.units and purse.epoch != now.epoch:
                purse.units = 0
            named = budgets.used_by(now, self._run, purse.token.number)
            changed, got = budgets.reserved(
                named, self._me, wanted, outstanding=purse.outstanding, hold=self.hold
            )
            return changed if got else None

        if not await self._change(purse, reserving):
            return False
        purse.reserve(got)
        return True

    async def report(self, purse: Purse) -> None:
        """Hand back what was reserved and not sent, and say what is still under way."""
        returned, epoch = purse.units if purse.has_units() else 0, purse.epoch
        purse.units = 0

        def reporting(now: Budget) -> Budget:
            return budgets.reported(
                now, self._me, outstanding=purse.outstanding, returned=returned, epoch=epoch
            )

        await self._tell(purse, reporting)
        purse.noted = purse.outstanding

    async def open(self, purse: Purse, told: Told) -> None:
        """Begin an epoch with what its first answer told."""
        await self._tell(
            purse, lambda now: budgets.opened(now, self._me, told, outstanding=purse.outstanding)
        )
        purse.noted = purse.outstanding

    async def rest(self, purse: Purse, seconds: float | None) -> None:
        """Let a token rest: so long, or until it was to be whole again, or for a minute."""

        def resting(now: Budget) -> Budget:
            known = now.resets_in if now.is_known and now.resets_in > 0 else budgets.REST
            reported = budgets.reported(now, self._me, outstanding=purse.outstanding)
            return budgets.rested(reported, known if seconds is None else seconds)

        await self._tell(purse, resting)
        purse.noted = purse.outstanding

    async def cap(self, purse: Purse, left: int) -> None:
        """Tell that less is left than the fleet believes."""
        await self._tell(purse, lambda now: budgets.capped(now, left))

    async def doubt(self, purse: Purse, page: str, why: str) -> None:
        """Tell that a page refused a token."""
        await self._tell(purse, lambda now: budgets.doubted(now, page, why))

    async def trust(self, purse: Purse) -> None:
        """Tell that a token was accepted."""
        await self._tell(purse, budgets.trusted)

    async def _tell(self, purse: Purse, change: Callable[[Budget], Budget]) -> None:
        """Change a budget by what a host said; a queue that is away does not spoil the page."""
        with suppress(QueueError):
            await self._change(purse, change)

    async def _change(self, purse: Purse, change: Callable[[Budget], Budget | None]) -> bool:
        """Write down a changed budget, however many others write; False if there is nothing to change."""
        for _ in range(TRIES):
            now = purse.budget()
            changed = change(now)
            if changed is None or changed == now:
                return False
            if await purse.swap(self._queue, changed):
                return True
            await asyncio.sleep(random.uniform(0, 0.005))
            await self.look([purse])
        return False

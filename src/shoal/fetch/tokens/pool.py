"""Sharing out the requests of many tokens: reserved before they are sent, for the whole fleet."""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.errors import NoTokenLeft, QueueError, ShoalError, TokensResting
from shoal.core.model import SECOND
from shoal.core.tasks import watched
from shoal.fetch.notes import Notes, secret_of
from shoal.fetch.tokens.budget import Budget
from shoal.fetch.tokens.desk import Desk
from shoal.fetch.tokens.purse import Clock, Purse
from shoal.fetch.tokens.token import Source, Token, numbered
from shoal.fetch.tokens.told import Told

log = logging.getLogger("shoal.tokens")

SALT = "tokens"  # the key of what names are made with
TIDY_EVERY = 0.1  # seconds
IDLE = 0.2  # seconds after which reserved requests are handed back
NEARLY = 1.0  # seconds before the end of an epoch
FRESH = 5.0  # seconds for which a token that cannot be used is not looked at again, unless its time has come
PATIENCE = 0.3  # seconds that a request waits for a reset rather than being put off
LOOK_FIRST, LOOK_LAST = 0.01, 0.3  # seconds between two looks at what another worker is being told
LONGEST_LOOK = 5.0
NO_TOKEN_WAIT = timedelta(seconds=15)
LONG_REST = 30.0  # seconds, of which a person should know
WARN_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Draw:
    """One request that may be sent with a token."""

    purse: Purse
    epoch: int

    @property
    def token(self) -> Token:
        """The token to send it with."""
        return self.purse.token


class TokenPool:
    """The tokens of one worker, whose budgets the fleet shares through notes."""

    def __init__(self, queue: Notes, source: Source, salt: bytes, *, run_id: str, clock: Clock) -> None:
        self.desk = Desk(queue, run_id)
        self._source, self._salt, self._clock = source, salt, clock
        self._purses: dict[str, Purse] = {}
        self._waiting: deque[asyncio.Future[Draw]] = deque()
        self._buying: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._turn, self._read_at, self._warned_at = 0, clock(), float("-inf")

    @classmethod
    async def open(
        cls, queue: Notes, source: Source, *, run_id: str, clock: Clock = time.monotonic
    ) -> "TokenPool":
        """Read the tokens; raises InvalidSetting if there are none."""
        pool = cls(queue, source, await secret_of(queue, SALT), run_id=run_id, clock=clock)
        pool._take(await source.read())
        return pool

    @property
    def tokens(self) -> list[Token]:
        """The tokens that it has now."""
        return [purse.token for purse in self._purses.values()]

    async def draw(self) -> Draw:
        """Return a request that may be sent; raises TokensResting or NoTokenLeft."""
        if self._tidying is None:
            self._tidying = watched(asyncio.create_task(self._tidy()))
        if not self._waiting and (draw := self._at_hand()):
            return draw
        future: asyncio.Future[Draw] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._buying is None:
            self._buying = watched(asyncio.create_task(self._buy_for_all()))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                self.unsent(future.result())
            raise

    def another(self, draw: Draw) -> Draw | None:
        """Return a further request with the same token, if it is at hand: for a redirect."""
        return Draw(draw.purse, draw.purse.draw()) if draw.purse.has_units() else None

    def unsent(self, draw: Draw) -> None:
        """Take back a request that was not sent."""
        draw.purse.in_flight -= 1
        if draw.epoch == draw.purse.epoch and not draw.purse.budget().is_free:
            draw.purse.units += 1

    async def over(self, draw: Draw, told: Told | None = None) -> None:
        """Say that a request has ended, and what its answer told; None if there is none to be believed."""
        purse = draw.purse
        purse.in_flight -= 1
        if told is not None:
            await self._heard(purse, draw.epoch, told)
        elif purse.budget().is_probed:
            await self.desk.report(purse)
        self._news.set()

    async def rest(self, draw: Draw, told: Told) -> None:
        """Let a token rest that its host calls exhausted."""
        purse = draw.purse
        purse.in_flight -= 1
        purse.units = 0
        await self.desk.rest(purse, _rest(told))
        rests_for = purse.budget().resets_in
        log.info("%s rests for %.0f s: its host calls it exhausted", purse.token.name, rests_for)
        self._news.set()

    async def doubt(self, draw: Draw, page: str, why: str) -> None:
        """Note that a page refused a token; one that two pages refuse is retired."""
        purse = draw.purse
        purse.in_flight -= 1
        was_retired = bool(purse.budget().retired)
        await self.desk.report(purse)
        await self.desk.doubt(purse, page, why)
        if purse.budget().retired and not was_retired:
            log.warning("%s was retired: %s. All about it: shoal tokens", purse.token.name, why)
        self._news.set()

    async def close(self) -> None:
        """Hand back what was reserved and not used."""
        for task in (self._tidying, self._buying):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._fail(lambda: TokensResting("The tokens are being handed back", SECOND))
        for purse in self._purses.values():
            if purse.noted:
                await self.desk.report(purse)

    async def _heard(self, purse: Purse, epoch: int, told: Told) -> None:
        purse.heard(epoch, told.left, told.resets_in)
        budget = purse.budget()
        is_of_now = epoch == budget.epoch
        if is_of_now and not budget.is_known:
            await self.desk.open(purse, told)
        elif is_of_now and told.left is not None and _is_much_less(told.left, budget):
            await self.desk.cap(purse, told.left)
        if budget.doubts and not budget.retired:
            await self.desk.trust(purse)

    def _take(self, texts: list[str]) -> None:
        tokens = numbered(texts, self._salt, self._source.bucket)
        self._purses = {
            token.key: self._purses.get(token.key) or Purse(token, self._clock) for token in tokens
        }
        self._turn = random.randrange(len(tokens))

    def _at_hand(self) -> Draw | None:
        ready = [purse for purse in self._purses.values() if purse.has_looked and purse.has_units()]
        if not ready:
            return None
        purse = min(ready, key=lambda one: one.drawn)
        return Draw(purse, purse.draw())

    # Reserving

    async def _buy_for_all(self) -> None:
        """Reserve requests until nobody waits."""
        try:
            await self._buy_until_served()
        except QueueError as error:
            reason = f"What is left of the tokens cannot be asked: {error}"
            self._fail(lambda: TokensResting(reason, 2 * SECOND))
        except Exception:
            self._fail(lambda: TokensResting("What is left of the tokens is not known", 2 * SECOND))
            raise
        finally:
            self._buying = None

    async def _buy_until_served(self) -> None:
        wait, began = LOOK_FIRST, self._clock()
        while self._serve():
            self._news.clear()
            if await self._buy(len(self._waiting)):
                wait, began = LOOK_FIRST, self._clock()
                continue
            budgets_now = [purse.budget() for purse in self._purses.values()]
            if any(one.is_probed for one in budgets_now) and self._clock() - began < LONGEST_LOOK:
                await self._hear_news(wait)
                wait = min(2 * wait, LOOK_LAST)
            elif not await self._outlast(budgets_now):
                return

    def _serve(self) -> int:
        """Give what is at hand to those who wait; return how many still do."""
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
            elif draw := self._at_hand():
                self._waiting.popleft().set_result(draw)
            else:
                break
        return len(self._waiting)

    async def _buy(self, wanted: int) -> bool:
        """Reserve from one token, the next in turn that has something left; tell whether that worked."""
        await self.desk.look([purse for purse in self._purses.values() if self._is_worth_a_look(purse)])
        purses = list(self._purses.values())
        self._turn += 1
        for place in range(len(purses)):
            purse = purses[(self._turn + place) % len(purses)]
            if purse.has_units() or await self.desk.reserve(purse, wanted):
                return True
        return False

    def _is_worth_a_look(self, purse: Purse) -> bool:
        budget = purse.budget()
        is_settled = budget.is_known or budget.retired
        return not (purse.has_looked and is_settled) or purse.age > FRESH

    # Waiting

    async def _hear_news(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _outlast(self, known: list[Budget]) -> bool:
        """Wait for a reset that is near; put all off who wait for one that is not, and return False."""
        alive = [one for one in known if not one.retired]
        if not alive:
            self._warn(f"No token is left: all {len(known)} were refused. {self._source.advice}")
            self._fail(lambda: NoTokenLeft(len(known), self._source.advice, NO_TOKEN_WAIT))
            return False
        seconds = min(max(one.resets_in, 0.0) if one.is_known else 1.0 for one in alive)
        if seconds <= PATIENCE:
            await asyncio.sleep(seconds + 0.005)
            return True
        if seconds >= LONG_REST:
            self._warn(_all_rest(len(alive), seconds))
        self._fail(lambda: TokensResting(_all_rest(len(alive), seconds), timedelta(seconds=seconds)))
        return False

    def _fail(self, error: Callable[[], Exception]) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error())
                future.exception()  # seen, though the one who waited may have given up

    def _warn(self, text: str) -> None:
        if self._clock() > self._warned_at + WARN_EVERY:
            self._warned_at = self._clock()
            log.warning(text)

    # Keeping order

    async def _tidy(self) -> None:
        """Hand back what lies idle, and read the tokens again where they may change."""
        while True:
            await asyncio.sleep(TIDY_EVERY)
            for purse in list(self._purses.values()):
                if self._is_untidy(purse):
                    await self.desk.report(purse)
            if self._clock() > self._read_at + self._source.read_again:
                await self._read_again()

    def _is_untidy(self, purse: Purse) -> bool:
        if purse.noted <= purse.in_flight or self._clock() - purse.last_used < IDLE:
            return False
        # That some have ended matters when an epoch does; until then it is told with the next reservation.
        return bool(purse.units or not purse.in_flight or purse.budget().resets_in < NEARLY)

    async def _read_again(self) -> None:
        self._read_at = self._clock()
        try:
            texts = await self._source.read()
        except ShoalError as error:
            log.warning("The tokens stay as they are: %s", error)
            return
        if {token.text for token in self.tokens} != set(texts):
            self._take(texts)


def _is_much_less(left: int, budget: Budget) -> bool:
    """Tell whether a host says so much less than the fleet believes that all must know at once."""
    believed = budget.left
    if believed is None:
        return True
    return left < believed - (budget.limit or believed) // 10 or (left == 0 and believed > 0)


def _rest(told: Told) -> float | None:
    waits = [told.rest, None if told.left else told.resets_in]
    return max((wait.total_seconds() for wait in waits if wait), default=None)


def _all_rest(count: int, seconds: float) -> str:
    tokens = "The token rests" if count == 1 else f"All {count} tokens rest"
    return f"{tokens}; the first request may be sent in {seconds:.0f} s"

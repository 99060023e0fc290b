"""The shared budget of one token, and what may be done with it: pure decisions, no I/O.

A budget is stored in a note that is only written by compare-and-swap, so that two workers cannot reserve the
same request. Its times are seconds from the moment of writing; a reader ages it first. An epoch is one
window of the host's rate limit. It begins with one request, by one worker, whose response tells how many more
there may be, and ends when the host said that the limit resets.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from shoal.fetch.tokens.rate_limit_headers import RateLimit

MAX_AHEAD = 32  # requests that a worker reserves beyond those that wait
LAST_UNITS = 3  # of a worker's share, which are not reserved ahead
DEFAULT_COOLDOWN = 60.0  # seconds that an exhausted token is paused where the host sends no duration
MAX_RUNS = 5


class Reservation(msgspec.Struct, frozen=True, array_like=True):
    """Requests that a worker has reserved, and that may not have reached the host yet."""

    units: int
    epoch: int
    gone_in: float  # seconds until they expire, whatever became of the worker


class TokenBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fleet's state of a token, without the token."""

    number: int = 0  # its index in the list, for display
    epoch: int = 0
    is_known: bool = False  # whether the host has sent the limit of this epoch
    left: int | None = None  # requests that are not reserved; None: the host sends no limit
    limit: int | None = None
    resets_in: float = 0.0
    is_shut: bool = False  # the host reported less than we assumed, so nothing is returned to `left`
    held: Mapping[str, Reservation] = {}
    rejections: tuple[str, ...] = ()  # pages that rejected it since it was last accepted
    retired: str = ""  # the reason
    runs: tuple[str, ...] = ()  # that used it recently

    @property
    def is_free(self) -> bool:
        """Whether it may be used without a reservation."""
        return self.is_known and self.left is None and not self.retired

    @property
    def is_probed(self) -> bool:
        """Whether the request is in flight whose response tells the budget of this epoch."""
        return not self.is_known and any(held.epoch == self.epoch for held in self.held.values())


def advance(budget: TokenBudget, seconds: float) -> TokenBudget:
    """Return the budget as of this many seconds later."""
    held = {
        worker: Reservation(one.units, one.epoch, one.gone_in - seconds)
        for worker, one in budget.held.items()
        if one.gone_in > seconds
    }
    budget = replace(budget, held=held, resets_in=budget.resets_in - seconds)
    is_over = budget.is_known and budget.left is not None and budget.resets_in <= 0
    return (
        replace(budget, epoch=budget.epoch + 1, is_known=False, left=None, is_shut=False)
        if is_over
        else budget
    )


def reserve(
    budget: TokenBudget, worker: str, wanted: int, *, outstanding: int, hold: float
) -> tuple[TokenBudget, int]:
    """Reserve requests for a worker that has others outstanding; return how many it got."""
    units = _grantable(budget, wanted)
    if not units:
        return budget, 0
    held = {**budget.held, worker: Reservation(outstanding + units, budget.epoch, hold)}
    left = None if budget.left is None else budget.left - units
    return replace(budget, held=held, left=left), units


def _grantable(budget: TokenBudget, wanted: int) -> int:
    if budget.retired or budget.is_free or budget.is_probed:
        return 0
    if not budget.is_known or budget.left is None:
        return 1
    # The reservation ahead shrinks towards the end, so that no request stays unused with one worker.
    ahead = min(MAX_AHEAD, budget.left // (2 * (len(budget.held) + 1)) - LAST_UNITS)
    return min(budget.left, max(wanted, ahead))


def report(
    budget: TokenBudget, worker: str, *, outstanding: int, returned: int = 0, epoch: int = -1
) -> TokenBudget:
    """Record what a worker still has outstanding, and return what it will not use."""
    held = dict(budget.held)
    mine = held.pop(worker, None)
    if outstanding and mine:
        held[worker] = Reservation(outstanding, mine.epoch, mine.gone_in)
    budget = replace(budget, held=held)
    can_return = budget.is_known and budget.epoch == epoch and not budget.is_shut
    if budget.left is None or not can_return:
        return budget
    return replace(budget, left=budget.left + returned)


def open_epoch(budget: TokenBudget, worker: str, rate_limit: RateLimit, *, outstanding: int) -> TokenBudget:
    """Begin an epoch with the rate limit in the response to its first request."""
    if budget.is_known or budget.retired:
        return budget
    budget = report(budget, worker, outstanding=outstanding)
    if rate_limit.left is None:
        return replace(budget, is_known=True, left=None, limit=None)
    # The host may count earlier reservations that have not expired in this epoch.
    late = sum(held.units for held in budget.held.values())
    resets_in = DEFAULT_COOLDOWN if rate_limit.resets_in is None else rate_limit.resets_in.total_seconds()
    # Some hosts do not count the request that they respond to.
    most = rate_limit.left if rate_limit.limit is None else min(rate_limit.left, rate_limit.limit - 1)
    left = max(0, most - late)
    return replace(budget, is_known=True, left=left, limit=rate_limit.limit, resets_in=resets_in)


def lower(budget: TokenBudget, left: int) -> TokenBudget:
    """Lower the budget to what the host reports."""
    if not budget.is_known or (budget.left is not None and budget.left <= left):
        return budget
    if budget.left is None:
        # It sent no limit before: from now on there is one, and it is learnt from the start.
        return replace(budget, epoch=budget.epoch + 1, is_known=False)
    return replace(budget, left=left, is_shut=True)


def pause(budget: TokenBudget, seconds: float) -> TokenBudget:
    """Pause a token; no worker may use it in the meantime."""
    if budget.retired:
        return budget
    return replace(budget, is_known=True, left=0, is_shut=True, resets_in=max(seconds, 0.001))


def record_rejection(budget: TokenBudget, page: str, why: str) -> TokenBudget:
    """Record that a page rejected a token; after two, with no success in between, it is retired."""
    if page in budget.rejections or budget.retired:
        return budget
    rejections = (*budget.rejections, page)
    return replace(budget, rejections=rejections, retired=why if len(rejections) > 1 else "")


def clear_rejections(budget: TokenBudget) -> TokenBudget:
    """Clear the rejections of a token that was accepted."""
    return replace(budget, rejections=())


def used_by(budget: TokenBudget, run_id: str, number: int) -> TokenBudget:
    """Record which run uses a token, and its number there."""
    if budget.runs[:1] == (run_id,) and budget.number == number:
        return budget
    others = [run for run in budget.runs if run != run_id]
    return replace(budget, number=number, runs=(run_id, *others)[:MAX_RUNS])

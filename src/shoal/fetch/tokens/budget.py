"""The budget of one token as the fleet shares it, and what may be done with it: decided here, no I/O.

A budget lives in a note that is only ever swapped, so that two workers cannot reserve the same request.
Times in it are seconds from the moment of writing; whoever reads it lets it age first. An epoch is one window
of the host. It begins with one request, by one worker, whose answer tells how many others there may be, and
ends when the host said that the budget would be whole again.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from shoal.fetch.tokens.told import Told

AHEAD = 32  # requests that a worker reserves beyond those that wait
LAST = 3  # of a worker's part, which nobody reserves ahead
REST = 60.0  # seconds that an exhausted token rests where nothing says how long
MOST_RUNS = 5


class Held(msgspec.Struct, frozen=True, array_like=True):
    """Requests that a worker has reserved, and that may not have reached the host yet."""

    units: int
    epoch: int
    gone_in: float  # then they are over, whatever became of the worker


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the fleet knows of a token, without the token."""

    number: int = 0  # its place in the list, for people
    epoch: int = 0
    is_known: bool = False  # whether the host has told what is left in this epoch
    left: int | None = None  # requests that nobody has reserved; None: the host tells of no limit
    limit: int | None = None
    resets_in: float = 0.0
    is_shut: bool = False  # the host has said less than we believed, so that nothing comes back to `left`
    held: Mapping[str, Held] = {}
    doubts: tuple[str, ...] = ()  # pages that refused it since it was last accepted
    retired: str = ""  # why
    runs: tuple[str, ...] = ()  # that have used it lately

    @property
    def is_free(self) -> bool:
        """Whether it may be used without reserving anything."""
        return self.is_known and self.left is None and not self.retired

    @property
    def is_probed(self) -> bool:
        """Whether the request is under way whose answer tells the budget of this epoch."""
        return not self.is_known and any(held.epoch == self.epoch for held in self.held.values())


def aged(budget: Budget, seconds: float) -> Budget:
    """Return a budget as it is this much later."""
    held = {
        worker: Held(one.units, one.epoch, one.gone_in - seconds)
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


def reserved(
    budget: Budget, worker: str, wanted: int, *, outstanding: int, hold: float
) -> tuple[Budget, int]:
    """Reserve requests for a worker who has others outstanding; return how many it has got."""
    units = _grantable(budget, wanted)
    if not units:
        return budget, 0
    held = {**budget.held, worker: Held(outstanding + units, budget.epoch, hold)}
    left = None if budget.left is None else budget.left - units
    return replace(budget, held=held, left=left), units


def _grantable(budget: Budget, wanted: int) -> int:
    if budget.retired or budget.is_free or budget.is_probed:
        return 0
    if not budget.is_known or budget.left is None:
        return 1
    # What is taken ahead shrinks towards the end, so that nothing lies idle with one worker then.
    ahead = min(AHEAD, budget.left // (2 * (len(budget.held) + 1)) - LAST)
    return min(budget.left, max(wanted, ahead))


def reported(budget: Budget, worker: str, *, outstanding: int, returned: int = 0, epoch: int = -1) -> Budget:
    """Say what a worker still has outstanding, and hand back what it will not use."""
    held = dict(budget.held)
    mine = held.pop(worker, None)
    if outstanding and mine:
        held[worker] = Held(outstanding, mine.epoch, mine.gone_in)
    budget = replace(budget, held=held)
    can_return = budget.is_known and budget.epoch == epoch and not budget.is_shut
    if budget.left is None or not can_return:
        return budget
    return replace(budget, left=budget.left + returned)


def opened(budget: Budget, worker: str, told: Told, *, outstanding: int) -> Budget:
    """Begin an epoch with what the answer to its first request told."""
    if budget.is_known or budget.retired:
        return budget
    budget = reported(budget, worker, outstanding=outstanding)
    if told.left is None:
        return replace(budget, is_known=True, left=None, limit=None)
    # What was reserved before and is not over may be counted in this epoch by the host.
    late = sum(held.units for held in budget.held.values())
    resets_in = REST if told.resets_in is None else told.resets_in.total_seconds()
    # Some hosts do not count the request that they answer.
    most = told.left if told.limit is None else min(told.left, told.limit - 1)
    left = max(0, most - late)
    return replace(budget, is_known=True, left=left, limit=told.limit, resets_in=resets_in)


def capped(budget: Budget, left: int) -> Budget:
    """Believe a host that says less is left than we thought."""
    if not budget.is_known or (budget.left is not None and budget.left <= left):
        return budget
    if budget.left is None:
        # It told nothing before: from now on its limit is known, and is learnt from the start.
        return replace(budget, epoch=budget.epoch + 1, is_known=False)
    return replace(budget, left=left, is_shut=True)


def rested(budget: Budget, seconds: float) -> Budget:
    """Let a token rest; nobody may use it meanwhile."""
    if budget.retired:
        return budget
    return replace(budget, is_known=True, left=0, is_shut=True, resets_in=max(seconds, 0.001))


def doubted(budget: Budget, page: str, why: str) -> Budget:
    """Note that a page refused a token; refused by two and accepted by none meanwhile, it is retired."""
    if page in budget.doubts or budget.retired:
        return budget
    doubts = (*budget.doubts, page)
    return replace(budget, doubts=doubts, retired=why if len(doubts) > 1 else "")


def trusted(budget: Budget) -> Budget:
    """Forget the doubts about a token that was accepted."""
    return replace(budget, doubts=())


def used_by(budget: Budget, run_id: str, number: int) -> Budget:
    """Note which run uses a token, and which number it has there."""
    if budget.runs[:1] == (run_id,) and budget.number == number:
        return budget
    others = [run for run in budget.runs if run != run_id]
    return replace(budget, number=number, runs=(run_id, *others)[:MOST_RUNS])

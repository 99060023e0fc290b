"""No interleaving of an enqueue and its claimers closes a host queue that has just been given a task.

A model of the protocol on top of `46_closing.sql` with PostgreSQL's rules: a statement sees what was
committed when it began, a row's writer holds its lock until it commits, and a snapshot's `xmax` is one more
than the newest transaction that has *ended*, so one that runs may lie above it. An enqueue and three claimers
take their steps in every possible order. A foreign transaction has an id lower than theirs, and never ends.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

ENQUEUE, CLAIMERS = 0, (1, 2, 3)
FOREIGN = 1  # the id of the foreign transaction


class Lane(NamedTuple):
    """The host queue's row: whether any claim will look at it, and how far it is on its way to be closed."""

    due: bool = True
    idle: int | None = None


class Call(NamedTuple):
    """One transaction: its next step, its id once it has one, and who had committed when it began."""

    step: str
    xid: int = 0
    committed: frozenset[int] = frozenset()
    stores: bool = False  # it holds a writer's lock on `bundle`
    oldest: int = 0  # the lowest id among those who hold one, as it was when this call looked


class World(NamedTuple):
    calls: tuple[Call, ...]
    host_queue: Lane = Lane()
    written: Lane | None = None  # by the holder of the lock, not committed yet
    holder: int | None = None
    next_xid: int = FOREIGN + 1
    committed: frozenset[int] = frozenset()
    served: bool = False  # a claimer has seen the task

    def xmax(self) -> int:
        return max(self.committed, default=FOREIGN) + 1

    def xmin(self) -> int:
        running = {call.xid for call in self.calls if call.xid and call.xid not in self.committed}
        return min(running | {self.xmax()})

    def oldest_storing(self, me: int) -> int:
        """Return what `shoal.oldest_storing` does."""
        storing = {call.xid for call in self.calls if call.stores and call.xid not in self.committed}
        return min(storing | {me})

    def task_is_visible(self) -> bool:
        return self.calls[ENQUEUE].step == "ended"


Protocol = Callable[[World, Call], Lane]


def close_at_first_look(world: World, me: Call) -> Lane:
    """The naive protocol: an empty host queue is closed."""
    return Lane(due=False)


def note_the_newest_ended(world: World, me: Call) -> Lane:
    """Mark, then note `xmax`, then wait until all below it have ended."""
    return mark_note_close(world, mark=0, note=world.xmax())


def note_my_own_id(world: World, me: Call) -> Lane:
    """Mark, then note the noting transaction's own id, then wait until all below it have ended."""
    return mark_note_close(world, mark=0, note=me.xid)


def note_my_own_id_if_i_began_after_the_mark(world: World, me: Call) -> Lane:
    """The protocol of `46_closing.sql`: whoever did not see the mark has a smaller id than the noted one."""
    idle = world.host_queue.idle
    if idle is not None and idle < 0 and -idle not in me.committed:
        return Lane(idle=-me.xid)
    return mark_note_close(world, mark=-me.xid, note=me.xid)


def wait_for_those_who_store_tasks(world: World, me: Call) -> Lane:
    """The same with the second test of `46_closing.sql`, where a foreign transaction keeps `xmin` low."""
    idle = world.host_queue.idle
    if idle is not None and idle < 0 and -idle not in me.committed:
        return Lane(idle=-me.xid)
    return mark_note_close(world, mark=-me.xid, note=me.xid, ended=me.oldest)


def wait_for_those_who_store_tasks_now(world: World, me: Call) -> Lane:
    """Close a host queue as soon as nobody else stores tasks, with neither mark nor note."""
    return Lane(due=False) if me.oldest == me.xid else world.host_queue


def mark_note_close(world: World, mark: int, note: int, ended: int | None = None) -> Lane:
    idle = world.host_queue.idle
    if idle is None:
        return Lane(idle=mark)
    if idle <= 0:
        return Lane(idle=note)
    return Lane(due=False) if idle <= (world.xmin() if ended is None else ended) else world.host_queue


MEASURING = (wait_for_those_who_store_tasks, wait_for_those_who_store_tasks_now)


def moves(world: World, who: int, protocol: Protocol) -> Iterator[World]:
    """Let one call take its next step, if it can."""
    me = world.calls[who]
    match me.step:
        case "begin":  # symmetric calls begin in order, which loses nothing and saves time
            if who < 2 or world.calls[who - 1].step != "begin":
                yield step(world, who, "start", committed=world.committed)
        case (
            "start"
        ):  # a claim may have its id long before it comes to this host queue, an enqueue before it stores
            then = ("store" if who == ENQUEUE else "measure") if protocol in MEASURING else after_start(who)
            yield step(world, who, then, xid=world.next_xid)._replace(next_xid=world.next_xid + 1)
        case "store":
            yield step(world, who, "look", stores=True)
        case "measure":  # once in a claim, perhaps long before it comes to this host queue
            yield step(world, who, "lock", oldest=world.oldest_storing(me.xid))
        case "look":  # as `shoal.arm` does: a host queue that is due and not being closed is left alone
            armed = world.host_queue.due and world.host_queue.idle is None
            yield step(world, who, "commit" if armed else "arm")
        case "arm" if world.holder is None:
            yield step(world, who, "commit")._replace(holder=who, written=Lane())
        case "lock":  # SKIP LOCKED: a claimer never waits
            if world.holder is None and world.host_queue.due:
                yield step(world, who, "visit")._replace(holder=who)
            else:
                yield step(world, who, "commit")
        case "visit" if world.task_is_visible():
            yield step(world, who, "commit")._replace(written=Lane(), served=True)
        case "visit":
            yield step(world, who, "commit")._replace(written=protocol(world, me))
        case "commit":
            ended = step(world, who, "ended")._replace(committed=world.committed | {me.xid})
            if world.holder == who:
                ended = ended._replace(host_queue=world.written, written=None, holder=None)
            yield ended


def after_start(who: int) -> str:
    return "look" if who == ENQUEUE else "lock"


def step(world: World, who: int, then: str, **facts: object) -> World:
    calls = list(world.calls)
    # What an ended call knew is forgotten, so that fewer states are told apart.
    calls[who] = Call(then) if then == "ended" else calls[who]._replace(step=then, **facts)
    return world._replace(calls=tuple(calls))


def explore(protocol: Protocol) -> Iterator[World]:
    """Yield every state that can be reached."""
    begin = World(calls=(Call("start"), *(Call("begin") for _ in CLAIMERS)))
    seen, todo = {begin}, [begin]
    while todo:
        world = todo.pop()
        yield world
        after = {new for who in range(len(world.calls)) for new in moves(world, who, protocol)}
        todo += after - seen
        seen |= after


def is_lost(world: World) -> bool:
    """Tell whether all have ended and the task waits in a host queue that nobody will look at."""
    ended = all(call.step == "ended" for call in world.calls)
    return ended and not world.served and not world.host_queue.due


@pytest.mark.long
@pytest.mark.parametrize(
    "protocol", [note_my_own_id_if_i_began_after_the_mark, wait_for_those_who_store_tasks]
)
def test_the_protocol_of_the_claim_loses_no_task_in_any_order(protocol):
    closed = 0
    for world in explore(protocol):
        closed += not world.host_queue.due
        assert not is_lost(world)
    assert closed, "no host_queue was ever closed, so nothing was tested"


@pytest.mark.parametrize(
    "protocol",
    [close_at_first_look, note_the_newest_ended, note_my_own_id, wait_for_those_who_store_tasks_now],
)
def test_a_simpler_protocol_loses_a_task(protocol):
    assert any(map(is_lost, explore(protocol)))

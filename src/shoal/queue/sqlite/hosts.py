"""Hosts: their rate limits, and their last starts, after which the next request must wait."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from shoal.core.model import ZERO, HostStatus
from shoal.queue.encoding import counts_from, duration, micros
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import Page, Store, as_json, decode_as

Start = tuple[int, int]  # the time in microseconds, and the delay of its run


class HostStarts(msgspec.Struct, array_like=True):
    """A host with its starts as stored. An unused start is given back, and the one before it counts again."""

    id: int
    last_at: int
    last_gap: int
    earlier: str

    def starts(self) -> list[Start]:
        """Return the known starts in order."""
        return [*decode_as(self.earlier, list[Start]), (self.last_at, self.last_gap)]


def read_starts(store: Store, hosts: Iterable[int]) -> list[HostStarts]:
    """Return hosts with their starts."""
    return store.read("host_starts", list[HostStarts], hosts=as_json(list(hosts)))


def add_starts(starts: Sequence[Start], new: Sequence[Start], live: int) -> list[Start]:
    """Return the starts on a host after a claim.

    Only the starts of live leases can be given back. So the latest start that cannot be given back is among
    the last `live + 1`, and all starts before that one never count again.
    """
    return [*starts[-(live + 1) :], *new]


def remove_starts(starts: Sequence[Start], unused: Iterable[int]) -> list[Start]:
    """Return the starts on a host without unused ones; the first stays, because the one before is unknown."""
    first, *others = starts
    for moment in unused:
        index = next((index for index, start in enumerate(others) if start[0] == moment), None)
        if index is not None:
            del others[index]
    return [first, *others]


def write_starts(store: Store, changed: Iterable[tuple[int, Sequence[Start]]]) -> None:
    """Write the starts of hosts."""
    rows = [(host, *starts[-1], as_json(starts[:-1])) for host, starts in changed]
    store.run_many("host_write_starts", rows)


def pause_host(store: Store, host: str, duration: timedelta) -> None:
    """Send no requests to a host for a while; zero ends a pause."""
    number = store.value("host_number", name=host)
    if duration == ZERO:
        store.run("host_unpause", host=number)
    else:
        store.run_many("host_adjust", [(number, store.now() + micros(duration), None)])
    store.run("arm", host_queues="[]", hosts=as_json([number]))


def slow_host(store: Store, host: str, delay: timedelta) -> None:
    """Set a host's own delay; zero removes it."""
    number = store.value("host_number", name=host)
    store.run("host_slow", host=number, delay=micros(delay))
    store.run("arm", host_queues="[]", hosts=as_json([number]))


def take_turn(store: Store, host: str, gap: timedelta) -> timedelta:
    """Plan a start on a host, and return how long until then."""
    now, number = store.now(), store.value("host_number", name=host)
    start: int = store.value("host_take_turn", host=number, now=now, gap=micros(gap))
    store.run("arm", host_queues="[]", hosts=as_json([number]))
    return duration(start - now)


class StoredHost(msgspec.Struct, array_like=True, frozen=True):
    """A host with its limits and the counts of its tasks."""

    name: str
    delay: int
    paused_until: int
    counts: list[int]

    def status(self, now: int) -> HostStatus:
        paused_for = self.paused_until - now
        return HostStatus(
            host=self.name,
            counts=counts_from(enumerate(self.counts)),
            delay=duration(self.delay) if self.delay else None,
            paused_for=duration(paused_for) if paused_for > 0 else None,
            cursor=self.name,
        )


class HostPage(msgspec.Struct, array_like=True, frozen=True):
    """Some hosts, and the last name that was read."""

    last: str | None
    rows: list[StoredHost]


def list_hosts(store: Store, after: str, size: int, run_id: str | None) -> Page[str, HostStatus]:
    """Return a page of hosts."""
    run = None if run_id is None else runs.get_row(store, run_id).no
    now = store.now()
    page = store.read("host_read", HostPage, run=run, now=now, after=after, limit=size)
    return page.last, [row.status(now) for row in page.rows]

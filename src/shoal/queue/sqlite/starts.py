"""The last starts on a host: one that was not used is given back, and the one before it counts again."""

from collections.abc import Iterable, Sequence

import msgspec

from shoal.queue.sqlite.store import Store, decoded
from shoal.queue.sqlite.texts import as_json

Start = tuple[int, int]  # when, and the delay of the run that made it


class HostRow(msgspec.Struct, array_like=True):
    """A host with its starts as the table has them."""

    id: int
    last_start: int
    last_delay: int
    earlier: str

    def starts(self) -> list[Start]:
        """Return what is known of them, the last one last."""
        return [*decoded(self.earlier, list[Start]), (self.last_start, self.last_delay)]


def read(store: Store, hosts: Iterable[int]) -> list[HostRow]:
    """Return hosts with their starts."""
    return store.read("host_starts", list[HostRow], hosts=as_json(list(hosts)))


def added(starts: Sequence[Start], fresh: Sequence[Start], live: int) -> list[Start]:
    """Return the starts on a host after a claim.

    Only those of live leases can be given back. So of what was there, the last that cannot be is among as
    many as there were live leases and one more, and all before it never count again.
    """
    return [*starts[-(live + 1) :], *fresh]


def without(starts: Sequence[Start], unused: Iterable[int]) -> list[Start]:
    """Return the starts on a host without those that were not used; what came before the first is unknown."""
    first, *others = starts
    for moment in unused:
        place = next((place for place, start in enumerate(others) if start[0] == moment), None)
        if place is not None:
            del others[place]
    return [first, *others]


def write(store: Store, changed: Iterable[tuple[int, Sequence[Start]]]) -> None:
    """Write the starts of hosts."""
    rows = [(host, *starts[-1], as_json(starts[:-1])) for host, starts in changed]
    store.many("claim_gates", rows)

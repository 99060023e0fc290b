"""The last starts on a host: an unused start is given back, and the one before it counts again."""

from collections.abc import Iterable, Sequence

import msgspec

from shoal.queue.sqlite.encoding import as_json
from shoal.queue.sqlite.store import Store, decode_as

Start = tuple[int, int]  # the time in microseconds, and the delay of its run


class HostStarts(msgspec.Struct, array_like=True):
    """A host with its starts as stored."""

    id: int
    last_start: int
    last_delay: int
    earlier: str

    def starts(self) -> list[Start]:
        """Return the known starts in order."""
        return [*decode_as(self.earlier, list[Start]), (self.last_start, self.last_delay)]


def read(store: Store, hosts: Iterable[int]) -> list[HostStarts]:
    """Return hosts with their starts."""
    return store.read("host_starts", list[HostStarts], hosts=as_json(list(hosts)))


def append(starts: Sequence[Start], new: Sequence[Start], live: int) -> list[Start]:
    """Return the starts on a host after a claim.

    Only the starts of live leases can be given back. So the latest start that cannot be given back is among
    the last `live + 1`, and all starts before that one never count again.
    """
    return [*starts[-(live + 1) :], *new]


def remove(starts: Sequence[Start], unused: Iterable[int]) -> list[Start]:
    """Return the starts on a host without unused ones; the first stays, because the one before is unknown."""
    first, *others = starts
    for moment in unused:
        index = next((index for index, start in enumerate(others) if start[0] == moment), None)
        if index is not None:
            del others[index]
    return [first, *others]


def write(store: Store, changed: Iterable[tuple[int, Sequence[Start]]]) -> None:
    """Write the starts of hosts."""
    rows = [(host, *starts[-1], as_json(starts[:-1])) for host, starts in changed]
    store.run_many("claim_gates", rows)

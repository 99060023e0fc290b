"""The Tor process of each worker of a run, as it reports it."""

from typing import NamedTuple

from shoal.fetch.tor.sync import TorState, read_states
from shoal.fleet.status.rows.fetchers import TorRow
from shoal.queue.contract import Queue


class TorStatus(NamedTuple):
    """The Tor of one worker."""

    name: str  # of the worker
    state: TorState

    def row(self) -> TorRow:
        """Return it as `shoal tor --json` reports it."""
        return TorRow.of(self.state, worker=self.name, state="up" if self.state.is_up else "down")


async def tors(queue: Queue, run_id: str) -> list[TorStatus]:
    """Return the Tor of each worker at work that uses one, by worker."""
    return [TorStatus(*found) for found in (await read_states(queue, run_id)).items()]

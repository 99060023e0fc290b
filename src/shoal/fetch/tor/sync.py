"""Publishes the state of a run's Tor processes through the queue, and receives renewal requests."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from shoal.core.model import MINUTE, SECOND
from shoal.core.tasks import repeat
from shoal.fetch.shared_state import SharedState

if TYPE_CHECKING:
    from shoal.fetch.tor.fetcher import TorFetcher

SYNC_INTERVAL = 5 * SECOND
STATE_TTL = MINUTE / 2  # after which a worker that publishes nothing is gone
ORDER_TTL = 10 * MINUTE
ORDER = "renew"


class TorState(msgspec.Struct, frozen=True):
    """The state of a worker's Tor."""

    is_up: bool
    says: str
    renewed: int = 0  # circuits that were replaced
    restarts: int = 0


class TorSync:
    """Publishes the state of one worker's Tor, and passes renewal requests to the worker."""

    def __init__(self, notes: SharedState, run_id: str, worker_id: str) -> None:
        self._notes, self._run_id, self._worker_id = notes, run_id, worker_id
        self._order: int | None = None
        self._knows_orders = False

    async def run(self, owner: "TorFetcher") -> None:
        """Exchange state until cancelled."""
        await repeat(lambda: self.exchange(owner), SYNC_INTERVAL, jitter=0, at_once=True)

    async def exchange(self, owner: "TorFetcher") -> None:
        """Exchange state once."""
        orders = await self._notes.notes(_orders(self._run_id), [ORDER])
        order = orders[ORDER].stamp if ORDER in orders else None
        # A request from before this worker started does not apply: its circuits are new anyway.
        if self._knows_orders and order is not None and order != self._order:
            await owner.renew_all()
        self._order, self._knows_orders = order, True
        state = msgspec.json.encode(owner.state())
        await self._notes.write_notes(_states(self._run_id), {self._worker_id: state}, ttl=STATE_TTL)


async def order_renewal(notes: SharedState, run_id: str) -> None:
    """Make every worker of a run use new circuits for all hosts, within a few seconds."""
    await notes.write_notes(_orders(run_id), {ORDER: os.urandom(8)}, ttl=ORDER_TTL)


async def read_states(notes: SharedState, run_id: str) -> dict[str, TorState]:
    """Return the states of the Tor processes of a run, by worker."""
    found = {}
    for worker, note in sorted((await notes.notes(_states(run_id))).items()):
        with suppress(msgspec.MsgspecError):
            found[worker] = msgspec.json.decode(note.value, type=TorState)
    return found


def _states(run_id: str) -> str:
    return f"tor {run_id}"


def _orders(run_id: str) -> str:
    return f"tor orders {run_id}"

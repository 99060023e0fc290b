"""What a run's workers tell of their Tors through the queue, and what they are told there."""

import asyncio
import os
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE
from shoal.fetch.notes import Notes

EVERY = 5.0  # seconds
KEEP = MINUTE / 2  # after which a worker that says nothing is gone
KEEP_ORDER = 10 * MINUTE
ORDER = "renew"


class TorState(msgspec.Struct, frozen=True):
    """How a worker's Tor is doing."""

    is_up: bool
    says: str
    renewed: int = 0  # circuits, counting each time that a host got another
    restarts: int = 0


class Teller(Protocol):
    """Who has a Tor."""

    def state(self) -> TorState: ...
    def renew_all(self) -> Awaitable[None]: ...


class Board:
    """Tells the fleet how one worker's Tor is doing, and the worker that someone wants new circuits."""

    def __init__(self, notes: Notes, run_id: str, worker: str | None = None) -> None:
        self._notes, self._run_id = notes, run_id
        self._worker = worker or f"{socket.gethostname()}-{os.getpid()}"
        self._order: int | None = None
        self._knows_orders = False

    async def run(self, teller: Teller) -> None:
        """Exchange news until cancelled."""
        while True:
            with suppress(QueueError):
                await self.exchange(teller)
            await asyncio.sleep(EVERY)

    async def exchange(self, teller: Teller) -> None:
        """Exchange news once."""
        orders = await self._notes.notes(_orders(self._run_id), [ORDER])
        order = orders[ORDER].stamp if ORDER in orders else None
        # An order that was there before we came is not for us: our circuits are new anyway.
        if self._knows_orders and order is not None and order != self._order:
            await teller.renew_all()
        self._order, self._knows_orders = order, True
        said = msgspec.json.encode(teller.state())
        await self._notes.write_notes(_states(self._run_id), {self._worker: said}, ttl=KEEP)


async def order_renewal(notes: Notes, run_id: str) -> None:
    """Have every worker of a run take new circuits for all hosts, within a few seconds."""
    await notes.write_notes(_orders(run_id), {ORDER: os.urandom(8)}, ttl=KEEP_ORDER)


async def read_states(notes: Notes, run_id: str) -> dict[str, TorState]:
    """Return how the Tors of a run's workers are doing, by worker."""
    found = {}
    for worker, note in sorted((await notes.notes(_states(run_id))).items()):
        with suppress(msgspec.MsgspecError):
            found[worker] = msgspec.json.decode(note.value, type=TorState)
    return found


def _states(run_id: str) -> str:
    return f"tor {run_id}"


def _orders(run_id: str) -> str:
    return f"tor orders {run_id}"

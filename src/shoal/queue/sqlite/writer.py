"""The thread that writes: calls that have come in together share one transaction."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import apsw

from shoal.queue.sqlite.database import Address, connect
from shoal.queue.sqlite.desk import Call
from shoal.queue.sqlite.door import translated
from shoal.queue.sqlite.store import Store


class Writer:
    """Serves calls in groups: each whole or not at all, and all with one commit."""

    def __init__(self, address: Address, clock: Callable[[], datetime]) -> None:
        self._address, self._clock = address, clock

    def open(self) -> Store:
        return Store(connect(self._address), self._clock)

    def close(self, store: Store) -> None:
        # As far as it goes without waiting for others; the last one to close does the rest.
        store.connection.set_busy_timeout(0)
        with suppress(apsw.Error):
            store.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        store.connection.close()

    def serve(self, store: Store, calls: Sequence[Call]) -> None:
        # A full disk can take the whole group back. Then each call tries its luck alone.
        if len(calls) == 1 or not self._together(store, calls):
            for call in calls:
                self._alone(store, call)

    def _alone(self, store: Store, call: Call) -> None:
        call.error = None
        try:
            _begin(store)
            call.result = call.act(store)
            _commit(store)
        except Exception as error:
            store.roll_back()
            call.error = translated(error, self._address.path)

    def _together(self, store: Store, calls: Sequence[Call]) -> bool:
        """Serve all calls in one transaction; False when it was taken back."""
        try:
            _begin(store)
        except apsw.Error as error:
            for call in calls:
                call.error = translated(error, self._address.path)
            return True
        try:
            for call in calls:
                self._within(store, call)
            _commit(store)
        except apsw.Error:
            store.roll_back()
            return False
        return True

    def _within(self, store: Store, call: Call) -> None:
        """Serve one call of a group; raises apsw.Error when the group's transaction is gone."""
        store.connection.execute("SAVEPOINT one")
        try:
            call.result = call.act(store)
        except Exception as error:
            call.error = translated(error, self._address.path)
            store.roll_back(to="one")
        store.connection.execute("RELEASE one")


def _begin(store: Store) -> None:
    store.connection.execute("BEGIN IMMEDIATE")


def _commit(store: Store) -> None:
    store.connection.execute("COMMIT")

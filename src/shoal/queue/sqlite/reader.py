"""The thread that looks: it never waits for the writer, and the writer never for it."""

from collections.abc import Callable, Sequence
from datetime import datetime

from shoal.queue.sqlite.database import Address, connect
from shoal.queue.sqlite.desk import Call
from shoal.queue.sqlite.door import translated
from shoal.queue.sqlite.store import Store


class Reader:
    """Serves each call with one view of the file, and keeps none of them for long."""

    def __init__(self, address: Address, clock: Callable[[], datetime]) -> None:
        self._address, self._clock = address, clock

    def open(self) -> Store:
        connection = connect(self._address)
        connection.pragma("query_only", True)
        return Store(connection, self._clock)

    def close(self, store: Store) -> None:
        store.connection.close()

    def serve(self, store: Store, calls: Sequence[Call]) -> None:
        for call in calls:
            try:
                with store.connection:
                    call.result = call.act(store)
            except Exception as error:
                call.error = translated(error, self._address.path)

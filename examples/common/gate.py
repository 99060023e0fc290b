"""Stops a site after some pages until it is told to go on, and says when it has served as many as wanted."""

from collections.abc import Callable

from shoal.demo.http import Connection, OnRequest


class Gate:
    """Counts the pages of a site since it was last told to hold; while it is closed, requests wait."""

    def __init__(self) -> None:
        self._served = self._passed = 0
        self._limit: int | None = None
        self._awaited: list[int] = []
        self._waiting: list[Callable[[], None]] = []

    def obey(self, order: str) -> None:
        """Do what a line says: `hold` after a number of pages, `go`, `tell` when a number was served."""
        match order.split():
            case ["hold", count]:
                self._limit, self._served, self._passed = int(count), 0, 0
            case ["go"]:
                self._limit = None
                waiting, self._waiting = self._waiting, []
                for serve in waiting:
                    serve()
            case ["tell", count]:
                self._awaited.append(int(count))
                self._tell()

    def count(self, *, is_gated: bool) -> None:
        """Count a page; `is_gated` if it had to pass the gate."""
        self._served += 1
        self._passed += is_gated
        self._tell()

    def enter(self, serve: Callable[[], None]) -> None:
        """Serve a request at once, or as soon as the gate opens."""
        if self._limit is not None and self._passed >= self._limit:
            self._waiting.append(serve)
        else:
            serve()

    def _tell(self) -> None:
        for count in [one for one in self._awaited if self._served >= one]:
            self._awaited.remove(count)
            print(f"served {count}", flush=True)


class GatedConnection(Connection):
    """A client whose requests wait while the gate is closed; those of a client that has left are dropped."""

    def __init__(self, on_request: OnRequest, connections: set[Connection], gate: Gate) -> None:
        super().__init__(on_request, connections)
        self._gate = gate

    def data_received(self, data: bytes) -> None:
        received = super().data_received
        self._gate.enter(lambda: received(data))

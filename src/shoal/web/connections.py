"""Limits on idle connections: each has a deadline, and their number is bounded."""

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# From the first byte, or the last response, to the end of a request's headers.
HEAD_TIMEOUT_SECONDS = 10.0
MAX_IDLE = 256


class IdleConnections:
    """The connections without a request in progress, the oldest first."""

    def __init__(self, max_idle: int = MAX_IDLE, head_timeout: float = HEAD_TIMEOUT_SECONDS) -> None:
        self._max_idle, self._head_timeout = max_idle, head_timeout
        self._timers: OrderedDict[H11Protocol, asyncio.TimerHandle] = OrderedDict()

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, connection: H11Protocol) -> None:
        """Give a connection its deadline; beyond the limit, the oldest is closed."""
        if connection not in self._timers:
            self._timers[connection] = connection.loop.call_later(self._head_timeout, self._close, connection)
        if len(self._timers) > self._max_idle:
            self._close(next(iter(self._timers)))

    def remove(self, connection: H11Protocol) -> None:
        """Remove the deadline: a request arrived, or the connection is closed."""
        timer = self._timers.pop(connection, None)
        if timer:
            timer.cancel()

    def _close(self, connection: H11Protocol) -> None:
        self.remove(connection)
        connection.transport.abort()


def protocol_with(idle: IdleConnections) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with these limits."""

    class LimitedProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            idle.add(self)

        def connection_lost(self, exc: Exception | None) -> None:
            idle.remove(self)
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            self._update_idle()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._update_idle()

        def _update_idle(self) -> None:
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                idle.remove(self)
            elif not self.transport.is_closing():
                idle.add(self)

    return LimitedProtocol

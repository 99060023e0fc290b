"""Serves the app over HTTP until a signal arrives, and bounds the number and the age of idle connections."""

import asyncio
import logging
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.core.errors import InvalidSetting
from shoal.core.redact import Redact
from shoal.web.context import WebContext

# From the first byte, or the last response, to the end of a request's headers.
HEAD_TIMEOUT_SECONDS = 10.0
MAX_IDLE = 256

log = logging.getLogger(__name__)
BACKLOG = 128  # connections that wait to be accepted
SHUTDOWN_TIMEOUT_SECONDS = 1  # for responses in progress when the server stops


class IdleConnections:
    """The connections without a request in progress, the oldest first.

    uvicorn has no deadline for the headers of a request, and its `limit_concurrency` counts idle connections:
    with as many silent ones, it would reject every request instead of closing them.
    """

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


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket for the server; raises InvalidSetting if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InvalidSetting(
            "--host", f"{host!r} is not an address of this machine. Try: --host 127.0.0.1"
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = f"{port} cannot be used at {host}: {error.strerror}. Try another: --port {port + 1}"
        raise InvalidSetting("--port", reason) from error
    return bound


def server_config(app: FastAPI, *, is_behind_https: bool, idle: IdleConnections | None = None) -> Config:
    """Return the uvicorn configuration."""
    return Config(
        app,
        http=protocol_with(IdleConnections() if idle is None else idle),
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        proxy_headers=is_behind_https,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


async def serve(app: FastAPI, at: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve the app until SIGTERM or Ctrl-C; stops within two seconds."""
    context: WebContext = app.state.context
    server = _UvicornServer(server_config(app, is_behind_https=context.settings.is_behind_https), on_ready)

    def stop() -> None:
        # Close the streams first: they never end by themselves.
        context.sampler.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        with _log_without_secrets(server, context.redact):
            await server.serve(sockets=[at])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _UvicornServer(Server):
    """Leaves signals to us, and calls back when it is ready."""

    def __init__(self, config: Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()


@contextmanager
def _log_without_secrets(server: Server, redact: Redact) -> Iterator[None]:
    """Forward the warnings of uvicorn, without exception texts, which may contain anything."""

    class RedactingHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not server.should_exit:  # clients disconnected at shutdown are not worth a line
                kind = record.exc_info[0] if record.exc_info else None
                message = record.getMessage().splitlines()[0]
                log.warning("%s", redact(f"{message} {kind.__name__}" if kind else message))

    handler, logger = RedactingHandler(logging.WARNING), logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True

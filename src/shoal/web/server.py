"""Serves the app over HTTP until a signal arrives."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import h11
from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.core.errors import InvalidSetting
from shoal.core.redact import Redact
from shoal.web.context import WebContext

log = logging.getLogger(__name__)
BACKLOG = 128  # connections that wait to be accepted
HEAD_TIMEOUT_SECONDS = 10.0  # from the connection, or the last response, to the end of a request's headers
SHUTDOWN_TIMEOUT_SECONDS = 1  # for responses in progress when the server stops


def bind(host: str, port: int) -> socket.socket:
    """Listen at an address for the server; raises InvalidSetting if it is not available."""
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
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        reason = f"{port} cannot be used at {host}: {error.strerror}. Try another: --port {port + 1}"
        raise InvalidSetting("--port", reason) from error
    return bound


class DeadlineProtocol(H11Protocol):
    """Closes connections whose request does not arrive in time; uvicorn would keep them forever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._clear_deadline()

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._clear_deadline()
        elif self._deadline is None:
            self._set_deadline()

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = None


def server_config(app: FastAPI, *, is_behind_https: bool) -> Config:
    """Return the uvicorn configuration."""
    return Config(
        app,
        http=DeadlineProtocol,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        proxy_headers=is_behind_https,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


async def serve(app: FastAPI, at: socket.socket) -> None:
    """Serve the app until SIGTERM or Ctrl-C; stops within two seconds."""
    context: WebContext = app.state.context
    server = _UvicornServer(server_config(app, is_behind_https=context.settings.is_behind_https))

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
    """Leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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

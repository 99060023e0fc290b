"""Serving an app over HTTP until a signal comes."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from uvicorn import Config, Server

from shoal.core.errors import InvalidSetting
from shoal.core.redact import Redact
from shoal.web.connections import IdleConnections, protocol_with
from shoal.web.site import Site

log = logging.getLogger(__name__)
BACKLOG = 128  # connections that are accepted in one go
GRACE = 1  # seconds for answers under way when the server is to end


def bind(host: str, port: int) -> socket.socket:
    """Take an address for the server; raises InvalidSetting for one that cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InvalidSetting(
            "--host", f"{host!r} is no address of this machine. Try: --host 127.0.0.1"
        ) from error
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        reason = f"{port} cannot be used at {host}: {error.strerror}. Name another: --port {port + 1}"
        raise InvalidSetting("--port", reason) from error
    return taken


def server_config(app: FastAPI, *, is_behind_https: bool, idle: IdleConnections | None = None) -> Config:
    """Return how the app is served."""
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
        timeout_graceful_shutdown=GRACE,
    )


async def serve(app: FastAPI, at: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve the app until SIGTERM or Ctrl-C, and be gone within two seconds of it."""
    site: Site = app.state.site
    server = _Server(server_config(app, is_behind_https=site.settings.is_behind_https), on_ready)

    def end() -> None:
        # First of all the streams: they would never come to an end by themselves.
        site.sampler.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        with _told_without_secrets(server, site.redact):
            await server.serve(sockets=[at])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Server(Server):
    """Leaves signals to us, and says when it is ready."""

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
def _told_without_secrets(server: Server, redact: Redact) -> Iterator[None]:
    """Pass on what the server complains of, without the texts of errors, which may hold anything."""

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not server.should_exit:  # who is cut off at the end is no news
                kind = record.exc_info[0] if record.exc_info else None
                words = record.getMessage().splitlines()[0]
                log.warning("%s", redact(f"{words} {kind.__name__}" if kind else words))

    ear, logger = Ear(logging.WARNING), logging.getLogger("uvicorn.error")
    logger.addHandler(ear)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.propagate = True

"""How the two ends of a connection notice that the other one is gone.

A machine that is cut off says no farewell. Without these its calls would wait for a quarter of an hour or for
ever, and so would those who wait for what its last call has locked at the server.
"""

import socket
from typing import Any

import asyncpg

# Of a call that is answered in milliseconds. A lease lasts a minute and is extended three times in it, so
# that one extension that was lost in this way is repeated before it is too late.
ANSWER_WITHIN = 20.0  # seconds
CONNECT_WITHIN = 10.0
CLOSE_WITHIN = 5.0

IDLE = 10  # seconds of silence after which a connection is tested
INTERVAL = 5  # seconds from test to test
PROBES = 2  # tests that may fail
UNHEARD = IDLE + PROBES * INTERVAL  # seconds in which nothing that was sent has come to the other end

# What the server is asked to do for a session, so that nobody else waits for a client that has vanished.
SESSION = {
    "tcp_keepalives_idle": f"{IDLE}s",
    "tcp_keepalives_interval": f"{INTERVAL}s",
    "tcp_keepalives_count": f"{PROBES}",
    "tcp_user_timeout": f"{UNHEARD}s",
    "idle_in_transaction_session_timeout": "60s",  # of one that is there, but stopped
}

_OPTIONS = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", IDLE),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", INTERVAL),
    ("IPPROTO_TCP", "TCP_KEEPCNT", PROBES),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", UNHEARD * 1_000),
)


class AliveConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that ends by itself when its server can no longer be reached."""

    def __init__(self, protocol: Any, transport: Any, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        stay_alert(transport.get_extra_info("socket"))


def stay_alert(sock: Any) -> None:
    """Have a socket over TCP tested while it is silent; a system that cannot do all of it does the rest."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, name, value in _OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(getattr(socket, level), getattr(socket, name), value)

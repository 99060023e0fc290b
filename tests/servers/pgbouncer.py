"""A private PgBouncer that pools transactions, as people run it in front of many workers."""

import signal
import socket
from typing import Self

from tests.servers.postgres import USER, PostgresServer
from tests.servers.process import ServerProcess, find_program

# Everything that matters to a client is left at PgBouncer's own defaults: what fails here fails in the field.
CONFIG = """\
[databases]
* = host=127.0.0.1 port={server_port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = {clients}
"""


class PgBouncer(ServerProcess):
    """A PgBouncer in front of a PostgreSQL; `pool_size` connections for each of its databases."""

    name = "pgbouncer"
    stop_signal = signal.SIGTERM

    def __init__(self, server: PostgresServer, *, pool_size: int = 4, clients: int = 500) -> None:
        self._program = find_program("pgbouncer", "pgbouncer")
        super().__init__()
        self._config = self.folder / "pgbouncer.ini"
        self._config.write_text(
            CONFIG.format(
                server_port=server.port, user=USER, port=self.port, pool_size=pool_size, clients=clients
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start pooling."""
        self._spawn([self._program, self._config], self._is_ready)

    def restart(self) -> None:
        """Drop all connections and start again on the same port."""
        self.stop()
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database behind the pool."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

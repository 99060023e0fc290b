"""A private RabbitMQ node with an epmd of its own, and a cluster of three."""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers.process import (
    START_TIMEOUT,
    ServerFailed,
    ServerProcess,
    find_program,
    free_port,
    is_alive,
    wait_until,
)

PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # the wrappers in /usr/sbin change the user
ERLANG = Path("/usr/lib/erlang")
CTL_TIMEOUT = 60.0
# Seconds until a node takes a silent one for dead. With RabbitMQ's 60, publishers of a queue whose leader is
# frozen wait for 76 s before they get an error, and the consumers take as long again.
NET_TICK_TIME = 8
SHARED = "SHOAL_TEST_RABBITMQ"  # the variable with the port and the pid of the one that workers share
# Erlang's schedulers look for work again and again before they sleep, which the other tests would pay for.
NO_SPINNING = "+sbwt none +sbwtdcpu none +sbwtdio none"

CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
raft.wal_max_size_bytes = 32000000
loopback_users = none
log.file = false
log.console = true
log.console.level = warning
"""

# Not pause_minority: a node that was frozen until the others took it for dead does not notice that it was in
# a minority, and stays apart from them until somebody restarts it. Quorum queues need no such protection.
JOINED = """\
cluster_partition_handling = autoheal
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 0
"""

# What `rabbitmq-queues check_if_node_is_quorum_critical` asks; the module depends on the version.
IS_NOT_CRITICAL = """\
true = rabbit:is_running(),
[[] | _] = [
    Module:list_with_minimum_quorum_for_cli()
    || Module <- [rabbit_upgrade_preparation, rabbit_quorum_queue],
       {module, Module} =:= code:ensure_loaded(Module),
       erlang:function_exported(Module, list_with_minimum_quorum_for_cli, 0)
]"""


class Epmd(ServerProcess):
    """The port mapper that a node needs; without one of ours the node would leave a daemon behind."""

    name = "epmd"

    def start(self) -> None:
        """Start mapping; nothing happens when it does already."""
        if self._process is not None:
            return
        program = find_program("epmd", "rabbitmq-server")
        self._spawn([program, "-port", str(self.port), "-address", "127.0.0.1"], self._is_ready)

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


class RabbitServer(ServerProcess):
    """A RabbitMQ of our own on 127.0.0.1, which keeps what it confirmed when it is killed."""

    name = "rabbitmq"

    def __init__(
        self,
        epmd: Epmd | None = None,
        cookie: str = "",
        peers: Sequence["RabbitServer"] = (),
        more_config: str = "",
    ) -> None:
        self._program = find_program("rabbitmq-server", "rabbitmq-server", [PROGRAMS])
        super().__init__()
        self._shares_epmd = epmd is not None
        self._epmd = epmd or Epmd()
        self.node = f"shoal-{self.port}@localhost"
        self._config = self.folder / "rabbitmq.conf"
        joins = self._joins(peers) if cookie else ""
        self._config.write_text(CONFIG.format(port=self.port) + joins + more_config)
        if cookie:
            self._write_cookie(cookie)
        self._plugins = self.folder / "enabled_plugins"
        self._plugins.write_text("[].\n")
        self._dist_port = free_port()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the node."""
        return _url_at(self.port)

    def with_state(self, redis_url: str) -> str:
        """Return the address of a queue whose memory is in a Redis."""
        return f"{self.url}?state={redis_url}"

    def start(self) -> None:
        """Start the node, on the data of the last time."""
        self._epmd.start()
        self._spawn([*self._environment(), self._program], self._is_ready)

    def begin(self) -> None:
        """Start the node without waiting for it."""
        self._epmd.start()
        self._begin([*self._environment(), self._program])

    def restart(self) -> None:
        """Stop the node in good order and start it again on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the node and remove its folder; an end in good order takes seconds, and nothing is kept."""
        self.kill()
        super().close()
        if not self._shares_epmd:
            self._epmd.close()

    def ctl(self, *words: str) -> str:
        """Run rabbitmqctl and return what it prints; raises ServerFailed."""
        program = find_program("rabbitmqctl", "rabbitmq-server", [PROGRAMS])
        command = [*self._environment(), program, "--quiet", *words]
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            check=False,
            timeout=CTL_TIMEOUT,
            cwd=self.folder,
            user=self.user,
        )
        if done.returncode:
            raise ServerFailed(f"rabbitmqctl {words[0]}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout.strip()

    def evaluate(self, expressions: str) -> str:
        """Evaluate Erlang in the node and return the last value; raises ServerFailed.

        Unlike rabbitmqctl, it starts no Erlang, which would take 0.7 s of processor time.
        """
        program = find_program("erl_call", "rabbitmq-server", sorted(ERLANG.glob("erts-*/bin"), reverse=True))
        cookie = (self.folder / ".erlang.cookie").read_text()
        done = subprocess.run(
            [program, "-sname", self.node, "-c", cookie, "-e"],
            input=f"{expressions}.\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=CTL_TIMEOUT,
            env={"HOME": str(self.folder), "ERL_EPMD_PORT": str(self._epmd.port)},
        )
        if done.returncode or not done.stdout.startswith("{ok, "):
            raise ServerFailed(f"{expressions}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout.strip().removeprefix("{ok, ").removesuffix("}")

    def set_memory_limit(self, limit: str) -> None:
        """Raise the memory alarm above this limit, such as "1GB"; while it lasts, publishers are not read."""
        self.evaluate(f'vm_memory_monitor:set_vm_memory_high_watermark({{absolute, "{limit}"}})')

    def set_disk_limit(self, limit: str) -> None:
        """Raise the disk alarm while less than this is free, such as "50MB"."""
        self.evaluate(f'rabbit_disk_monitor:set_disk_free_limit("{limit}")')

    def _joins(self, peers: Sequence["RabbitServer"]) -> str:
        nodes = [*(peer.node for peer in peers), self.node]
        lines = (
            f"cluster_formation.classic_config.nodes.{place} = {node}\n"
            for place, node in enumerate(nodes, start=1)
        )
        return JOINED + "".join(lines)

    def _write_cookie(self, cookie: str) -> None:
        file = self.folder / ".erlang.cookie"
        file.write_text(cookie)
        file.chmod(0o400)
        if self.user:
            shutil.chown(file, self.user)

    def _environment(self) -> list[str]:
        folder = self.folder
        variables = {
            "HOME": folder,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": self._dist_port,
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_CONFIG_FILE": self._config,
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._plugins,
            "RABBITMQ_PID_FILE": folder / "pid",
            # So that the shell becomes the node, and signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_PORT": self._epmd.port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-kernel inet_dist_use_interface {{127,0,0,1}} net_ticktime {NET_TICK_TIME} {NO_SPINNING}"
            ),
        }
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]

    def _is_ready(self) -> bool:
        return _answers(self.port)


@dataclass(frozen=True)
class SharedRabbit:
    """The RabbitMQ that the workers of a test run share, as one of them sees it.

    A start takes 5 s of processor time, and an idle node one per cent of a core. Shoal names its queues after
    their store in Redis, of which each test has a fresh one, so that no test meets those of another.
    """

    port: int
    pid: int

    @staticmethod
    def announce(server: RabbitServer) -> None:
        """Let the processes that this one starts find a node that has begun to start."""
        os.environ[SHARED] = f"{server.port} {server.pid}"

    @classmethod
    def announced(cls) -> "SharedRabbit | None":
        """Return the node that the process above has announced."""
        return cls(*map(int, os.environ[SHARED].split())) if SHARED in os.environ else None

    @property
    def url(self) -> str:
        """The address of the node."""
        return _url_at(self.port)

    def with_state(self, redis_url: str) -> str:
        """Return the address of a queue whose memory is in a Redis."""
        return f"{self.url}?state={redis_url}"

    def wait_until_ready(self) -> None:
        """Wait until the node answers; raises ServerFailed."""
        wait_until(lambda: not is_alive(self.pid) or _answers(self.port), "RabbitMQ to start", START_TIMEOUT)
        if not is_alive(self.pid):
            raise ServerFailed("RabbitMQ has ended")


def _url_at(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.settimeout(1)
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(probe.recv(8))
    except OSError:
        return False


class RabbitCluster:
    """Three nodes that form a cluster. One can be killed, frozen, or cut off from the two others."""

    def __init__(self) -> None:
        self._epmd = Epmd()
        self._cookie = secrets.token_hex(10)
        self.nodes: list[RabbitServer] = []
        for _ in range(3):
            self.nodes.append(RabbitServer(self._epmd, self._cookie, self.nodes))

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the nodes, and remove their folders."""
        for node in self.nodes:
            node.close()
        self._epmd.close()

    def with_state(self, redis_url: str) -> str:
        """Return the address of a queue on these nodes whose memory is in a Redis."""
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"amqp://guest:guest@{places}/?state={redis_url}"

    def is_whole(self) -> bool:
        """Tell whether any one node could be lost, because every queue has caught up on the two others."""
        try:
            for node in self.nodes:
                node.evaluate(IS_NOT_CRITICAL)
        except (ServerFailed, subprocess.TimeoutExpired):
            return False
        return True

    def cut_off(self, node: RabbitServer) -> None:
        """Keep a node from talking with the others; clients still reach it."""
        cut = "{erlang:set_cookie(N, 'not-ours'), erlang:disconnect_node(N)}"
        node.evaluate(f"[{cut} || N <- {self._others(node)}]")

    def rejoin(self, node: RabbitServer) -> None:
        """Let a node that was cut off talk with the others again."""
        node.evaluate(f"[erlang:set_cookie(N, '{self._cookie}') || N <- {self._others(node)}]")

    def _others(self, node: RabbitServer) -> str:
        """Return the names of the other nodes as Erlang writes a list."""
        return "[" + ", ".join(f"'{other.node}'" for other in self.nodes if other is not node) + "]"

"""A private RabbitMQ node, with an epmd of its own."""

import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.process import ServerFailed, ServerProcess, find_program, free_port

PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # the wrappers in /usr/sbin change the user
CTL_TIMEOUT = 60.0

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

    def __init__(self) -> None:
        self._program = find_program("rabbitmq-server", "rabbitmq-server", [PROGRAMS])
        super().__init__()
        self._epmd = Epmd()
        self._node = f"shoal-{self.port}@localhost"
        self._config = self.folder / "rabbitmq.conf"
        self._config.write_text(CONFIG.format(port=self.port))
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
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def with_state(self, redis_url: str) -> str:
        """Return the address of a queue whose memory is in a Redis."""
        return f"{self.url}?state={redis_url}"

    def start(self) -> None:
        """Start the node, on the data of the last time."""
        self._epmd.start()
        self._spawn([*self._environment(), self._program], self._is_ready)

    def restart(self) -> None:
        """Stop the node in good order and start it again on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        super().close()
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

    def _environment(self) -> list[str]:
        folder = self.folder
        variables = {
            "HOME": folder,
            "RABBITMQ_NODENAME": self._node,
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
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.settimeout(1)
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(probe.recv(8))
        except OSError:
            return False

"""Machines of the tests' own: network namespaces that are joined by a bridge, and can be cut off from it."""

import atexit
import os
import random
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from tests.servers.process import SEARCH_PATH, ServerMissing


class NamespacesMissing(ServerMissing):
    """This system lets nobody, or not us, make network namespaces."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, f"Network namespaces cannot be made here: {reason}. They need root and ip")


@dataclass(frozen=True)
class Machine:
    """A place where processes have a network of their own."""

    name: str
    address: str
    cable: str
    bridge: str

    @property
    def inside(self) -> list[str]:
        """What a command needs in front of it to run on this machine."""
        return ["ip", "netns", "exec", self.name]

    def cut_off(self) -> None:
        """Let every packet from and to the machine vanish without a word."""
        _ip("link", "set", self.cable, "nomaster")

    def join(self) -> None:
        """Let packets through again."""
        _ip("link", "set", self.cable, "master", self.bridge)


class Network:
    """Some machines, and an address at which all of them reach this one."""

    def __init__(self, count: int) -> None:
        number = os.getpid() % 100_000
        # From a range that is set aside for tests of networks, so that it is nobody's own.
        self._net = f"198.18.{random.randint(1, 254)}"
        self.bridge = f"shoalb{number}"
        self.machines = [self._machine(number, place) for place in range(1, count + 1)]
        self._undoing = ExitStack()
        self._build_or_say_why_not()

    @property
    def address(self) -> str:
        """Where the machines find what runs on this one."""
        return f"{self._net}.1"

    @property
    def range(self) -> str:
        """All addresses of the network."""
        return f"{self._net}.0/24"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take everything down; who still runs on a machine has nobody to talk to any more."""
        atexit.unregister(self.close)
        self._undoing.close()

    def _build_or_say_why_not(self) -> None:
        if not shutil.which("ip", path=SEARCH_PATH):
            raise NamespacesMissing("ip is not installed (package iproute2)")
        atexit.register(self.close)
        try:
            self._build()
        except subprocess.CalledProcessError as error:
            self.close()
            raise NamespacesMissing(error.stderr.strip()) from error

    def _machine(self, number: int, place: int) -> Machine:
        address = f"{self._net}.{place + 1}"
        return Machine(f"shoal-{number}-{place}", address, f"shoal{number}v{place}", self.bridge)

    def _build(self) -> None:
        # With an address of its own. Otherwise it has that of its first cable, and packets of the machine at
        # that cable arrive here also when it is cut off: they are sent to the address of the cable itself.
        _ip("link", "add", self.bridge, "address", "02:00:00:00:00:01", "type", "bridge")
        self._undoing.callback(_ip, "link", "del", self.bridge)
        _ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for machine in self.machines:
            self._connect(machine)

    def _connect(self, machine: Machine) -> None:
        _ip("netns", "add", machine.name)
        self._undoing.callback(_ip, "netns", "del", machine.name)
        _ip("link", "add", machine.cable, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
        self._undoing.callback(_ip, "link", "del", machine.cable)
        _ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            _ip("-n", machine.name, "link", "set", link, "up")
        _ip("link", "set", machine.cable, "up")
        machine.join()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, env={"PATH": SEARCH_PATH})

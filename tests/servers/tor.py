"""A private Tor network on loopback: an authority, and exits that each resolve names in their own way.

An exit resolves every name to an address of its own, 127.0.0.11 and so on. So whoever listens on all of
loopback sees, by the address that a visitor came to, which exit it came by, and that this resolved the name.
"""

import os
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.servers.process import ServerFailed, ServerProcess, find_program, free_port, wait_until

EXITS = 4
FIRST_EXIT = 11  # 127.0.0.11
# Votes are cast at fixed times, every five seconds at first. Who starts that long before a vote is in it.
INTERVAL, VOTE_AT, HEAD_START = 5.0, 3.0, 4.3
CONSENSUS_TIMEOUT = 120.0
FOR_ALL = """
TestingTorNetwork 1
EnforceDistinctSubnets 0
PathsNeededToBuildCircuits 0.25
"""
FOR_RELAYS = """
Address 127.0.0.1
SocksPort 0
AssumeReachable 1
ExtendAllowPrivateAddresses 1
RefuseUnknownExits 0
ContactInfo none@example.test
ShutdownWaitLength 0
Log notice stdout
"""
FOR_AUTHORITY = """
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
TestingV3AuthInitialVotingInterval 5
TestingV3AuthInitialVoteDelay 2
TestingV3AuthInitialDistDelay 2
V3AuthVotingInterval 10
V3AuthVoteDelay 2
V3AuthDistDelay 2
V3AuthNIntervalsValid 100
TestingAuthDirTimeToLearnReachability 0
TestingDirAuthVoteExit *
TestingDirAuthVoteHSDir *
TestingDirAuthVoteGuard *
TestingMinExitFlagThreshold 0
ExitPolicy reject *:*
"""
FOR_EXITS = """
ExitRelay 1
ExitPolicy accept *:*
ExitPolicyRejectPrivate 0
ServerDNSDetectHijacking 0
ServerDNSAllowBrokenConfig 1
"""

NOBODY = f"DirAuthority nobody orport=1 no-v2 v3ident={'A' * 40} 127.0.0.1:1 {'A' * 40}"
OFFICE = {"i": "identity_key", "s": "signing_key", "c": "certificate"}  # what tor-gencert makes, by option


class TorNetwork:
    """A network of our own; `torrc` is the file that makes a Tor belong to it."""

    def __init__(self, exits: int = EXITS) -> None:
        find_program("tor", "tor")
        self.names = Names([f"127.0.0.{FIRST_EXIT + number}" for number in range(exits)])
        self._authority = Authority()
        self._exits = [Exit(number, *self.names.servers[number]) for number in range(exits)]

    @property
    def exits(self) -> frozenset[str]:
        """The addresses by which a visitor shows which exit it came by."""
        return frozenset(self.names.addresses)

    @property
    def torrc(self) -> Path:
        return self._authority.folder / "client.torrc"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all, and wait until the network agrees on who is in it."""
        making = [node.begin_keys() for node in (self._authority, *self._exits)]
        for keys in making:
            keys.wait(CONSENSUS_TIMEOUT)
        line = self._authority.line()
        self.torrc.write_text(f"{FOR_ALL}{line}\n")
        self.torrc.chmod(0o644)
        _wait_for_a_good_moment()
        for node in (self._authority, *self._exits):
            node.start(line)
        wait_until(self._agreed, "the Tor network to agree", CONSENSUS_TIMEOUT)
        for node in self._exits:
            node.look_again()
        wait_until(self._known, "the Tor network to know what was agreed", CONSENSUS_TIMEOUT)

    def close(self) -> None:
        """End all."""
        for node in (self._authority, *self._exits):
            node.close()
        self.names.close()

    def _agreed(self) -> bool:
        for node in (self._authority, *self._exits):
            node.check()
        return self._authority.listed() > len(self._exits)

    def _known(self) -> bool:
        return all(node.described() > len(self._exits) for node in self._exits)


class Relay(ServerProcess):
    """One node of the network."""

    name = "tor-relay"
    own_lines = ""

    def __init__(self, nickname: str) -> None:
        super().__init__()
        self.nickname = nickname
        self._program = find_program("tor", "tor")

    def begin_keys(self) -> subprocess.Popen[bytes]:
        """Begin to make its keys, for which there is no time between its start and the vote."""
        # A network of nobody will do for that.
        return self._popen([*self.command(NOBODY), "--list-fingerprint", "--quiet"])

    def start(self, authority_line: str) -> None:
        """Begin to start it."""
        self._spawn(self.command(authority_line), lambda: True)

    def command(self, authority_line: str) -> list[str | Path]:
        """Return the command that starts it, its configuration written."""
        lines = [
            FOR_ALL,
            FOR_RELAYS,
            self.own_lines,
            f"DataDirectory {self.folder}/data",
            f"Nickname {self.nickname}",
            f"ORPort 127.0.0.1:{self.port}",
            authority_line,
        ]
        (self.folder / "torrc").write_text("\n".join([*lines, ""]))
        (self.folder / "defaults").touch()
        return [self._program, "--defaults-torrc", self.folder / "defaults", "-f", self.folder / "torrc"]

    def look_again(self) -> None:
        """Have it ask the authority at once, and not when its patience allows it."""
        os.kill(self.pid, signal.SIGHUP)

    def described(self) -> int:
        """Return how many relays it has descriptions of, which clients may ask it for."""
        found = list((self.folder / "data").glob("cached-microdescs*"))
        return sum(file.read_text().count("onion-key\n") for file in found)

    def check(self) -> None:
        """Raise ServerFailed if it has ended."""
        if self._exited():
            raise ServerFailed(f"{self.nickname} ended:\n{self.log_tail()}")


class Exit(Relay):
    """A relay from which connections leave the network."""

    def __init__(self, number: int, host: str, port: int) -> None:
        super().__init__(f"exit{number}")
        resolver = self.folder / "resolv.conf"
        resolver.write_text(f"nameserver {host}:{port}\n")
        resolver.chmod(0o644)
        self.own_lines = f"{FOR_EXITS}ServerDNSResolvConfFile {resolver}"


class Authority(Relay):
    """The directory that says who is in the network."""

    name = "tor-authority"

    def __init__(self) -> None:
        super().__init__("authority")
        self._directory_port, self._keys = free_port(), self.folder / "data" / "keys"
        self.own_lines = f"{FOR_AUTHORITY}DirPort 127.0.0.1:{self._directory_port}"

    def begin_keys(self) -> subprocess.Popen[bytes]:
        """Begin to make its keys, those of its office first."""
        self._run(["mkdir", "-p", "-m", "700", self.folder / "data", self._keys])
        words = [word for letter, what in OFFICE.items() for word in (f"-{letter}", self._key(what))]
        gencert = find_program("tor-gencert", "tor")
        make = [gencert, "--create-identity-key", "--passphrase-fd", "0", "-m", "12", *words]
        others = [*self.command(NOBODY), "--list-fingerprint", "--quiet"]
        both = f"echo passphrase | {shlex.join(map(str, make))} && exec {shlex.join(map(str, others))}"
        return self._popen(["sh", "-c", both])

    def line(self) -> str:
        """Return the line by which others know it."""
        certificate = self._key("certificate").read_text()
        (identity,) = re.findall(r"^fingerprint ([0-9A-F]{40})$", certificate, re.MULTILINE)
        fingerprint = (self.folder / "data" / "fingerprint").read_text().split()[1]
        return (
            f"DirAuthority {self.nickname} orport={self.port} no-v2 v3ident={identity} "
            f"127.0.0.1:{self._directory_port} {fingerprint}"
        )

    def _key(self, what: str) -> Path:
        return self._keys / f"authority_{what}"

    def listed(self) -> int:
        """Return how many relays the network agrees on."""
        consensus = self.folder / "data" / "cached-microdesc-consensus"
        return consensus.read_text().count("\nr ") if consensus.exists() else 0


class Names:
    """A resolver for each exit, which gives every name the address of that exit."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in addresses]
        for one in self._sockets:
            one.bind(("127.0.0.1", 0))
        self.servers: list[tuple[str, int]] = [one.getsockname() for one in self._sockets]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._closed.set()
        self._thread.join(5)
        for one in self._sockets:
            one.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            for ready in select.select(self._sockets, [], [], 0.1)[0]:
                question, visitor = ready.recvfrom(4096)
                ready.sendto(self._answer(question, self._sockets.index(ready)), visitor)

    def _answer(self, question: bytes, number: int) -> bytes:
        labels = list(_labels(question))
        end = 12 + sum(len(label) + 1 for label in labels) + 1
        (kind,) = struct.unpack_from("!H", question, end)
        self.asked.append(b".".join(labels).decode().lower())
        is_address = kind == 1
        head = question[:2] + struct.pack("!HHHHH", 0x8580, 1, int(is_address), 0, 0)
        body = question[12 : end + 4]
        if is_address:
            body += struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(self.addresses[number])
        return head + body


def _labels(question: bytes) -> Iterator[bytes]:
    place = 12
    while length := question[place]:
        yield question[place + 1 : place + 1 + length]
        place += 1 + length


def _wait_for_a_good_moment() -> None:
    """Wait until the next vote is far enough away for all to be in it, and no further."""
    time.sleep((VOTE_AT - HEAD_START - time.time()) % INTERVAL)

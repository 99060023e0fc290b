"""The Tor program: where it is, which version it has, and what it is told."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

from shoal.core.errors import InvalidSetting, shorten

# Debian keeps daemons where an ordinary user's PATH does not look.
_MORE_PLACES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
PATIENCE = 30.0  # seconds for a program that only looks at its configuration
_COMPLAINT = re.compile(r"\[(?:warn|err)\] (.*)")


def find_tor() -> Path:
    """Return where the program lies; raises InvalidSetting."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_MORE_PLACES])
    if found := shutil.which("tor", path=places):
        return Path(found)
    raise InvalidSetting("tor", "needs the program tor, which is not installed. Run: apt-get install tor")


async def version_of(program: Path) -> str:
    """Return the version of a Tor program; raises InvalidSetting."""
    said = await _output(program, "--version")
    found = re.search(r"Tor version ([\w.-]*\w)", said)
    if not found:
        raise InvalidSetting("tor", f"does not know what {program} is: it says {shorten(said)!r}")
    return found[1]


def torrc_text(folder: Path, version: str) -> str:
    """Return what a Tor of ours is told: to be a client, for nobody but us, for as long as we live."""
    has_conflux = [int(number) for number in re.findall(r"[0-9]+", version)][:3] >= [0, 4, 8]
    lines = [
        f"DataDirectory {_quoted(folder / 'data')}",
        f"ControlSocket {_quoted(folder / 'control')}",
        "CookieAuthentication 1",
        f"CookieAuthFile {_quoted(folder / 'cookie')}",
        # A port that the system finds free. Streams of different names or hosts never share a circuit.
        "SocksPort 127.0.0.1:auto IsolateSOCKSAuth IsolateDestAddr",
        "ClientOnly 1",
        # Whatever the operator's own lines say: no door but that one.
        *(f"{port} 0" for port in ("ControlPort", "DNSPort", "HTTPTunnelPort", "NATDPort", "TransPort")),
        *(f"{port} 0" for port in ("DirPort", "ExtORPort", "ORPort")),
        # In case that we die before we have taken ownership over the control socket.
        f"__OwningControllerProcess {os.getpid()}",
        "RunAsDaemon 0",
        "SafeLogging 1",
        "Log notice stdout",
        "AvoidDiskWrites 1",
        "ShutdownWaitLength 0",
        # It would join a second circuit to the first after a while, by another exit.
        *(["ConfluxEnabled 0"] if has_conflux else []),
    ]
    return "\n".join([*lines, ""])


def command(program: Path, torrc: Path, defaults: Path) -> list[str]:
    """Return the command that starts a Tor; what `torrc` says is stronger than the defaults."""
    return [str(program), "--defaults-torrc", str(defaults), "-f", str(torrc)]


async def verify(program: Path, torrc: Path, defaults: Path) -> None:
    """Have Tor look at its configuration; raises InvalidSetting with what it says."""
    said = await _output(*command(program, torrc, defaults), "--verify-config")
    if "Configuration was valid" not in said:
        raise InvalidSetting("tor", f"is configured in a way that Tor refuses: {complaint(said)}")


def complaint(said: str) -> str:
    """Return the reason out of what Tor said when it gave up."""
    complaints = [line for line in _COMPLAINT.findall(said) if "see warnings above" not in line]
    return shorten(complaints[-1] if complaints else said.strip() or "it says nothing", 300)


async def _output(*words: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    try:
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise InvalidSetting("tor", f"needs a program that answers; {words[0]} did not") from None
    return said.decode(errors="replace")


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

"""The Tor program: its path, its version, and its configuration."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten

# Debian installs daemons where an ordinary user's PATH does not look.
_SBIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
CHECK_TIMEOUT = timedelta(seconds=30)  # for a program that only checks its configuration
_COMPLAINT = re.compile(r"\[(?:warn|err)\] (.*)")


def find_tor() -> Path:
    """Return the path of the program; raises InvalidSetting."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SBIN_FOLDERS])
    if found := shutil.which("tor", path=folders):
        return Path(found)
    raise InvalidSetting("tor", "needs the program tor, which is not installed. Run: apt-get install tor")


async def version_of(program: Path) -> str:
    """Return the version of a Tor program; raises InvalidSetting."""
    output = await _output(program, "--version")
    found = re.search(r"Tor version ([\w.-]*\w)", output)
    if not found:
        raise InvalidSetting("tor", f"cannot find a version in the output of {program}: {shorten(output)!r}")
    return found[1]


def torrc_text(folder: Path, version: str) -> str:
    """Return the torrc of a worker's Tor: a client, for this process only, for as long as it lives."""
    has_conflux = [int(number) for number in re.findall(r"[0-9]+", version)][:3] >= [0, 4, 8]
    lines = [
        f"DataDirectory {_quote(folder / 'data')}",
        f"ControlSocket {_quote(folder / 'control')}",
        "CookieAuthentication 1",
        f"CookieAuthFile {_quote(folder / 'cookie')}",
        # Any free port. Streams of different user names or hosts never share a circuit.
        "SocksPort 127.0.0.1:auto IsolateSOCKSAuth IsolateDestAddr",
        "ClientOnly 1",
        # Whatever the operator's own lines say: no other port.
        *(f"{port} 0" for port in ("ControlPort", "DNSPort", "HTTPTunnelPort", "NATDPort", "TransPort")),
        *(f"{port} 0" for port in ("DirPort", "ExtORPort", "ORPort")),
        # In case we die before we have taken ownership over the control socket.
        f"__OwningControllerProcess {os.getpid()}",
        "RunAsDaemon 0",
        "SafeLogging 1",
        "Log notice stdout",
        "AvoidDiskWrites 1",
        "ShutdownWaitLength 0",
        # It would add a second circuit to the first after a while, through another exit.
        *(["ConfluxEnabled 0"] if has_conflux else []),
    ]
    return "\n".join([*lines, ""])


def command(program: Path, torrc: Path, defaults: Path) -> list[str]:
    """Return the command that starts a Tor; `torrc` overrides the defaults."""
    return [str(program), "--defaults-torrc", str(defaults), "-f", str(torrc)]


async def verify(program: Path, torrc: Path, defaults: Path) -> None:
    """Have Tor check its configuration; raises InvalidSetting with its message."""
    output = await _output(*command(program, torrc, defaults), "--verify-config")
    if "Configuration was valid" not in output:
        raise InvalidSetting("tor", f"is configured in a way that Tor rejects: {failure_reason(output)}")


def failure_reason(output: str) -> str:
    """Return the reason from the output of a Tor that exited."""
    reasons = [line for line in _COMPLAINT.findall(output) if "see warnings above" not in line]
    return shorten(reasons[-1] if reasons else output.strip() or "no output", 300)


async def _output(*command_line: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(*command_line, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    try:
        async with asyncio.timeout(CHECK_TIMEOUT.total_seconds()):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise InvalidSetting("tor", f"needs a working program; {command_line[0]} did not respond") from None
    return output.decode(errors="replace")


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

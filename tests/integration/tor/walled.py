"""Fetches by Tor in a process that dies, as does its Tor, at the first UDP socket: python -m … TORRC URL.

With `lookup` in place of the file it resolves the URL's host itself, and must die. No resolver can be asked
over the network without such a socket.
"""

import asyncio
import ctypes
import platform
import socket
import struct
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
KILL, ALLOW = 0x80000000, 0x7FFF0000
LOAD, EQUALS, AND, RETURN = 0x20, 0x15, 0x54, 0x06
SYSTEMS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # the ABI, and its call for a socket
NUMBER, ABI, FAMILY, KIND = 0, 4, 16, 24  # where the filter finds what was called


def wall_in() -> None:
    """Let the kernel end this process and its children when they make a UDP socket."""
    abi, call = SYSTEMS[platform.machine()]
    steps = [
        (LOAD, 0, 0, ABI),
        (EQUALS, 1, 0, abi),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (EQUALS, 1, 0, call),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FAMILY),
        (EQUALS, 2, 0, socket.AF_INET),
        (EQUALS, 1, 0, socket.AF_INET6),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, KIND),
        (AND, 0, 0, 0xF),
        (EQUALS, 0, 1, socket.SOCK_DGRAM),
        (RETURN, 0, 0, KILL),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, program, 0, 0)):
        if libc.prctl(*words):
            sys.exit(f"no wall can be built here: {ctypes.get_errno()}")


async def fetch(torrc: Path, url: str) -> bytes:
    from shoal.core.http import Request
    from shoal.fetch.http.engines import open_engine
    from shoal.fetch.robots.robots import Robots
    from shoal.fetch.tor.fetcher import TorEgress, TorFetcher
    from shoal.fetch.tor.tor import Tor

    tor = await Tor.open(torrc)
    fetcher = TorFetcher(open_engine(egress=TorEgress(), user_agent="shoal"), tor)
    try:
        await tor.wait_until_up(timedelta(seconds=60))
        first = tor.pid
        await Robots(fetcher, "shoal").check(url)
        body = (await fetcher.fetch(Request(url=url))).body
        assert tor.pid == first, "Tor was ended, and started again"
        return body
    finally:
        await fetcher.close()


def main(what: str, url: str) -> None:
    wall_in()
    if what == "lookup":
        socket.getaddrinfo(urlsplit(url).hostname, 80)
    else:
        sys.stdout.write(asyncio.run(fetch(Path(what), url)).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])

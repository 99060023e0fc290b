"""Connections out of the gate: to checked addresses, or on through a proxy or Tor."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from ipaddress import IPv6Address
from urllib.parse import SplitResult, unquote, urlsplit

from shoal.core.errors import ConnectFailed, ProxyFailed, ProxyRefused
from shoal.core.exchange import Way
from shoal.fetch.egress import Target
from shoal.fetch.hops import CONNECT_TIMEOUT

Line = tuple[StreamReader, StreamWriter]

MOST_HEAD = 64 << 10
_SOCKS_REFUSALS = {2: "it is not allowed", 3: "no network", 4: "the host is not reached", 5: "refused"}


async def dial(target: Target, port: int) -> Line:
    """Connect to one of the target's checked addresses; raises ConnectFailed."""
    failure = "it has no address"
    for address in target.addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
                return await asyncio.open_connection(str(address), port, limit=MOST_HEAD)
        except (OSError, TimeoutError) as exc:
            failure = getattr(exc, "strerror", None) or str(exc) or "no answer"
    raise ConnectFailed(f"No connection to {target.host}: {failure}")


async def dial_by(way: Way, name: str, port: int, *, tunnel: bool = True) -> Line:
    """Connect by a way; without `tunnel`, to an HTTP proxy itself. Raises ProxyFailed."""
    url = urlsplit(way.url)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
            line = await _reach(url)
            try:
                if url.scheme.startswith("socks"):
                    await _socks(line, url, name, port, way.name)
                elif tunnel:
                    await _connect(line, url, name, port, way.name)
            except BaseException:
                line[1].close()
                raise
            return line
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as exc:
        raise ProxyFailed(way.name, _reason(exc)) from exc


def authorization(way: Way) -> str | None:
    """Return what an HTTP proxy is shown."""
    user, password = _credentials(urlsplit(way.url))
    return f"Basic {b64encode(user + b':' + password).decode()}" if user else None


def is_http(way: Way) -> bool:
    """Whether a way is an HTTP proxy, which can be asked for plain pages as they are."""
    return not urlsplit(way.url).scheme.startswith("socks")


async def _reach(url: SplitResult) -> Line:
    default = {"http": 80, "https": 443}.get(url.scheme, 1080)
    context = ssl.create_default_context() if url.scheme == "https" else None
    return await asyncio.open_connection(url.hostname, url.port or default, limit=MOST_HEAD, ssl=context)


async def _connect(line: Line, url: SplitResult, name: str, port: int, proxy: str) -> None:
    reader, writer = line
    user, password = _credentials(url)
    shown = f"Proxy-Authorization: Basic {b64encode(user + b':' + password).decode()}\r\n" if user else ""
    writer.write(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{shown}\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        said = (status[0] if status else b"").decode(errors="replace")[:10]
        raise ProxyRefused(proxy, f"it answered {said} to CONNECT", is_sure=said == "407")


async def _socks(line: Line, url: SplitResult, name: str, port: int, proxy: str) -> None:
    reader, writer = line
    user, password = _credentials(url)
    writer.write(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    method = (await reader.readexactly(2))[1]
    if method == 2:
        writer.write(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if (await reader.readexactly(2))[1]:
            raise ProxyRefused(proxy, "it refused its user or password")
    elif method:
        raise ProxyRefused(proxy, "it wants another way to log in")
    writer.write(b"\x05\x01\x00" + _spelled(name) + port.to_bytes(2, "big"))
    _, reply, _, kind = await reader.readexactly(4)
    if reply:
        raise ProxyRefused(proxy, _SOCKS_REFUSALS.get(reply, f"reply {reply}"), is_sure=False)
    length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
    await reader.readexactly(length + 2)


def _spelled(name: str) -> bytes:
    if name.startswith("["):
        return b"\x04" + IPv6Address(name.strip("[]")).packed
    # Addresses as names too: what can be resolved at the other end can be read there.
    host = name.encode("ascii")
    return b"\x03" + bytes([len(host)]) + host


def _credentials(url: SplitResult) -> tuple[bytes, bytes]:
    return unquote(url.username or "").encode(), unquote(url.password or "").encode()


def _reason(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return "it did not answer in time"
    if isinstance(exc, asyncio.IncompleteReadError):
        return "it hung up"
    return getattr(exc, "strerror", None) or type(exc).__name__

"""Connections of the browser proxy: to checked addresses, or through an upstream proxy or Tor."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from ipaddress import IPv6Address
from urllib.parse import SplitResult, unquote, urlsplit

from shoal.core.errors import ConnectFailed, ProxyFailed, ProxyRefused
from shoal.core.http import Proxy
from shoal.fetch.egress import AllowedTarget
from shoal.fetch.http.client import CONNECT_TIMEOUT

Connection = tuple[StreamReader, StreamWriter]

MAX_HEAD = 64 << 10
_SOCKS_REFUSALS = {2: "it is not allowed", 3: "no network", 4: "host unreachable", 5: "refused"}


async def dial(target: AllowedTarget, port: int) -> Connection:
    """Connect to one of the target's checked addresses; raises ConnectFailed."""
    failure = "it has no address"
    for address in target.addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
                return await asyncio.open_connection(str(address), port, limit=MAX_HEAD)
        except (OSError, TimeoutError) as exc:
            failure = getattr(exc, "strerror", None) or str(exc) or "no response"
    raise ConnectFailed(f"No connection to {target.host}: {failure}")


async def dial_via(proxy: Proxy, name: str, port: int, *, tunnel: bool = True) -> Connection:
    """Connect through a proxy; without `tunnel`, to an HTTP proxy itself. Raises ProxyFailed."""
    url = urlsplit(proxy.url)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
            connection = await _reach(url)
            try:
                if url.scheme.startswith("socks"):
                    await _socks(connection, url, name, port, proxy.name)
                elif tunnel:
                    await _connect(connection, url, name, port, proxy.name)
            except BaseException:
                connection[1].close()
                raise
            return connection
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as exc:
        raise ProxyFailed(proxy.name, _reason(exc)) from exc


def authorization(url: SplitResult) -> str | None:
    """Return the Proxy-Authorization value for the URL of an HTTP proxy."""
    user, password = _credentials(url)
    return f"Basic {b64encode(user + b':' + password).decode()}" if user else None


def is_http(proxy: Proxy) -> bool:
    """Whether a proxy is an HTTP proxy, which can forward plain requests."""
    return not urlsplit(proxy.url).scheme.startswith("socks")


async def _reach(url: SplitResult) -> Connection:
    default = {"http": 80, "https": 443}.get(url.scheme, 1080)
    context = ssl.create_default_context() if url.scheme == "https" else None
    return await asyncio.open_connection(url.hostname, url.port or default, limit=MAX_HEAD, ssl=context)


async def _connect(connection: Connection, url: SplitResult, name: str, port: int, proxy: str) -> None:
    reader, writer = connection
    secret = authorization(url)
    credential = f"Proxy-Authorization: {secret}\r\n" if secret else ""
    writer.write(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{credential}\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        code = (status[0] if status else b"").decode(errors="replace")[:10]
        raise ProxyRefused(proxy, f"it responded {code} to CONNECT", is_sure=code == "407")


async def _socks(connection: Connection, url: SplitResult, name: str, port: int, proxy: str) -> None:
    reader, writer = connection
    user, password = _credentials(url)
    writer.write(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    method = (await reader.readexactly(2))[1]
    if method == 2:
        writer.write(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if (await reader.readexactly(2))[1]:
            raise ProxyRefused(proxy, "it rejected its user or password")
    elif method:
        raise ProxyRefused(proxy, "it requires another authentication method")
    writer.write(b"\x05\x01\x00" + _socks_address(name) + port.to_bytes(2, "big"))
    _, reply, _, kind = await reader.readexactly(4)
    if reply:
        raise ProxyRefused(proxy, _SOCKS_REFUSALS.get(reply, f"reply {reply}"), is_sure=False)
    length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
    await reader.readexactly(length + 2)


def _socks_address(name: str) -> bytes:
    if name.startswith("["):
        return b"\x04" + IPv6Address(name.strip("[]")).packed
    # IPv4 addresses as names too: the other end parses them when it resolves names.
    host = name.encode("ascii")
    return b"\x03" + bytes([len(host)]) + host


def _credentials(url: SplitResult) -> tuple[bytes, bytes]:
    return unquote(url.username or "").encode(), unquote(url.password or "").encode()


def _reason(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return "it did not respond in time"
    if isinstance(exc, asyncio.IncompleteReadError):
        return "it closed the connection"
    return getattr(exc, "strerror", None) or type(exc).__name__

"""An API that allows each token so many requests a window, and counts every one that comes too many."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

REASONS = {200: "OK", 302: "Found", 401: "Unauthorized", 429: "Too Many Requests"}


@dataclass
class Asked:
    """A request as the API saw it."""

    path: str
    token: str | None
    headers: dict[str, str]


@dataclass
class LimitedApi:
    """Enforces `limit` requests a `window` and token; windows lie at fixed times, or begin at a request."""

    tokens: Iterable[str]
    limit: int = 100
    window: float = 5.0
    style: str = "github"  # or "ietf", "draft", "silent"
    at_fixed_times: bool = True
    after: float = 0.0  # seconds that an answer takes
    revoked: set[str] = field(default_factory=set)
    over: int = 0
    used: Counter[tuple[str, int]] = field(default_factory=Counter)
    asked: list[Asked] = field(default_factory=list)
    special: Callable[[Asked], tuple[int, dict[str, str]] | None] = lambda asked: None

    async def __aenter__(self) -> Self:
        self._known = set(self.tokens)
        self._began: dict[str, tuple[int, float]] = {}
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def windows(self) -> dict[int, int]:
        """Return how many requests were allowed in each window, of all tokens together."""
        found: Counter[int] = Counter()
        for (_, window), count in self.used.items():
            found[window] += count
        return dict(sorted(found.items()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status, fields = self._answer(_read(head))
                await asyncio.sleep(self.after)
                writer.write(_encoded(status, fields))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, asked: Asked) -> tuple[int, dict[str, str]]:
        self.asked.append(asked)
        if asked.token not in self._known or asked.token in self.revoked:
            return 401, {}
        number, resets_at = self._window(asked.token)
        self.used[asked.token, number] += 1
        left = self.limit - self.used[asked.token, number]
        wait = resets_at - time.time()
        if left < 0:
            self.used[asked.token, number] -= 1
            self.over += 1
            return 429, {"Retry-After": str(math.ceil(wait)), **self._headers(0, resets_at)}
        status, more = self.special(asked) or (200, {})
        return status, {**self._headers(left, resets_at), **more}

    def _window(self, token: str) -> tuple[int, float]:
        """Return the number of the window that a request falls into, and when that ends."""
        now = time.time()
        if self.at_fixed_times:
            number = int(now / self.window)
            return number, (number + 1) * self.window
        number, resets_at = self._began.get(token, (-1, 0.0))
        if now >= resets_at:
            number, resets_at = self._began[token] = number + 1, now + self.window
        return number, resets_at

    def _headers(self, left: int, resets_at: float) -> dict[str, str]:
        wait = math.floor(resets_at - time.time())  # the least careful way to say it
        match self.style:
            case "github":
                prefix, reset = "X-RateLimit-", str(math.floor(resets_at))
            case "draft":
                prefix, reset = "RateLimit-", str(wait)
            case "ietf":
                policy = f'"default";q={self.limit};w={math.ceil(self.window)}'
                return {"RateLimit": f'"default";r={left};t={wait}', "RateLimit-Policy": policy}
            case _:
                return {}
        return {f"{prefix}Limit": str(self.limit), f"{prefix}Remaining": str(left), f"{prefix}Reset": reset}


def _read(head: str) -> Asked:
    first, *lines = head.strip().split("\r\n")
    path = first.split(" ")[1]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("x-api-key")
    return Asked(path, given or parse_qs(urlsplit(path).query).get("key", [None])[0], headers)


def _encoded(status: int, fields: dict[str, str]) -> bytes:
    body = b'{"ok": true}'
    all_fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Date": formatdate(usegmt=True),
        **fields,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in all_fields.items())
    return f"HTTP/1.1 {status} {REASONS[status]}\r\n{head}\r\n".encode() + body

"""A shop whose pages are for members: a form logs them in, and whoever takes too many is turned away."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

PASSWORD = "open-s3same"
LOGIN_FORM = "<form><input name=csrf value=none></form>Please log in"


@dataclass
class MembersShop:
    """Remembers every visitor by the cookie that it gave."""

    per_visitor: int = 1_000  # pages; then it is turned away
    lifetime: Callable[[], int] = lambda: 1_000_000  # pages until a member is logged out
    ending: bytes | None = None  # what a visitor gets who is not logged in, in place of a 401
    hidden: frozenset[str] = frozenset()  # paths that no member may see
    refuses: int = 0  # the first logins
    login_takes: float = 0.0  # seconds
    pages: Counter[str] = field(default_factory=Counter)  # by visitor
    logins: list[float] = field(default_factory=list)  # when
    most_logins: int = 0  # at once
    strangers: int = 0
    agents: dict[str, set[str]] = field(default_factory=dict)  # that a visitor showed
    _forms: set[str] = field(default_factory=set)
    _members: dict[str, int] = field(default_factory=dict)  # and the pages that each has left
    _logging: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def log_out_all(self) -> None:
        """Forget every member."""
        self._members.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.strip().split("\r\n")
                fields = {
                    name.lower(): text.strip() for name, _, text in (one.partition(":") for one in rest)
                }
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                method, path, _ = line.split(" ")
                writer.write(await self._answer(method, path, fields, body.decode()))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, fields: dict[str, str], body: str) -> bytes:
        if path == "/robots.txt":
            return make_page(200, "User-agent: *\nDisallow: /login")
        if path.partition("?")[0] == "/login" and method == "GET":
            form = secrets.token_hex(8)
            self._forms.add(form)
            return make_page(200, f"<form><input name=csrf value={form}></form>")
        if path == "/login":
            return await self._log_in(parse_qs(body))
        visitor = fields.get("cookie", "").removeprefix("member=")
        if not self._members.get(visitor) or path in self.hidden:
            self.strangers += 1
            return self.ending or make_page(401, "log in first")
        self._members[visitor] -= 1
        self.pages[visitor] += 1
        self.agents.setdefault(visitor, set()).add(fields.get("user-agent", ""))
        if self.pages[visitor] > self.per_visitor:
            return make_page(403, "enough")
        return make_page(200, f"<h1>{path}</h1>")

    async def _log_in(self, form: dict[str, list[str]]) -> bytes:
        self.logins.append(asyncio.get_running_loop().time())
        self._logging += 1
        self.most_logins = max(self.most_logins, self._logging)
        await asyncio.sleep(self.login_takes)
        self._logging -= 1
        is_right = form.get("password") == [PASSWORD] and form.get("csrf", [""])[0] in self._forms
        if len(self.logins) <= self.refuses or not is_right:
            return make_page(200, "wrong password")
        member = secrets.token_hex(8)
        self._members[member] = self.lifetime()
        return make_page(303, "", "Location: /home", f"Set-Cookie: member={member}; Path=/")


def make_page(status: int, body: str, *fields: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Content-Type: text/html", *fields))
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return (head + body).encode()

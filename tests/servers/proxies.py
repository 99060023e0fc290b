"""Real proxies on 127.0.0.1: tinyproxy for HTTP, microsocks for SOCKS5, a slow line in front of either."""

import asyncio
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.process import START_TIMEOUT, ServerFailed, ServerProcess, find_program, wait_until

TINY = """
Port {port}
Listen 127.0.0.1
Timeout 60
MaxClients 1000
LogLevel Connect
{more}
"""


class Proxy(ServerProcess):
    """A proxy of our own; `user` and `password` are asked for where they are given."""

    scheme = "http"

    def __init__(self, login: tuple[str, str] | None = None, port: int | None = None) -> None:
        super().__init__()
        self.login, self.port = login, port or self.port

    @property
    def url(self) -> str:
        """Its address, with credentials."""
        return f"{self.scheme}://{':'.join(self.login) + '@' if self.login else ''}127.0.0.1:{self.port}"

    @property
    def shown(self) -> str:
        """Its address for everybody's eyes."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        raise NotImplementedError

    def begin(self) -> Self:
        """Start it, without waiting for it: many begin sooner side by side."""
        self._spawn(self.command(), lambda: True)
        return self

    def wait(self) -> Self:
        """Return when it listens."""
        wait_until(lambda: self._exited() or self._is_ready(), f"{self.name} to start", START_TIMEOUT)
        if self._exited():
            raise ServerFailed(f"{self.name} ended at its start:\n{self.log_tail()}")
        return self

    def stop(self) -> None:
        """End it at once: it has nothing to bring to an end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        return self.begin().wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _family(self) -> list[int]:
        return [] if self._process is None or self._exited() else [self.pid]  # it has no children

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class TinyProxy(Proxy):
    """An HTTP proxy; one that refuses says 403 to everything."""

    name = "tinyproxy"

    def __init__(
        self, login: tuple[str, str] | None = None, port: int | None = None, *, refuses: bool = False
    ) -> None:
        self._program = find_program("tinyproxy", "tinyproxy")
        super().__init__(login, port)
        more = [f"BasicAuth {login[0]} {login[1]}"] if login else []
        if refuses:
            (self.folder / "filter").write_text("")
            more += [f'Filter "{self.folder}/filter"', "FilterDefaultDeny Yes"]
        config = self.folder / "tiny.conf"
        config.write_text(TINY.format(port=self.port, more="\n".join(more)))
        for path in self.folder.iterdir():
            if self.user:
                shutil.chown(path, self.user)

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        return [self._program, "-d", "-c", self.folder / "tiny.conf"]

    def visits(self) -> list[float]:
        """When requests came, in seconds of the day, by its log."""
        return [_second_of_day(line) for line in self.log.read_text().splitlines() if "Request (file" in line]


def _second_of_day(line: str) -> float:
    """Read the time of a line of tinyproxy's log: `CONNECT   Nov 15 13:00:08.069 [29523]: …`."""
    hours, minutes, seconds = line.split()[3].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


class MicroSocks(Proxy):
    """A SOCKS5 proxy."""

    name, scheme = "microsocks", "socks5"

    def __init__(self, login: tuple[str, str] | None = None, port: int | None = None) -> None:
        self._program = find_program("microsocks", "microsocks")
        super().__init__(login, port)

    def command(self) -> list[str | Path]:
        """Return what starts it."""
        login = ["-u", self.login[0], "-P", self.login[1]] if self.login else []
        return [self._program, "-i", "127.0.0.1", "-p", str(self.port), *login]


class SlowLine:
    """A line to a proxy that lets nothing through for a while."""

    def __init__(self, proxy: Proxy, seconds: float) -> None:
        self._proxy, self.seconds = proxy, seconds
        self.visits = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where it begins."""
        return self.shown

    @property
    def shown(self) -> str:
        """Its address for everybody's eyes."""
        return f"{self._proxy.scheme}://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        # In a task of our own: asyncio complains of those of its own that are cancelled.
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(self.seconds)
            there, back = await asyncio.open_connection("127.0.0.1", self._proxy.port)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        except OSError:
            pass
        finally:
            writer.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while part := await source.read(65_536):
                target.write(part)
                await target.drain()
    finally:
        target.close()

"""A private nginx with pages to fetch, over HTTP/1.1 and over TLS with HTTP/2."""

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Self

from tests.servers.process import ServerProcess, find_program

LONG = "x" * 3_000  # nginx takes 4 KB in one piece
CONFIG = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    log_format spoken '$server_protocol $request_uri';
    access_log spoken.log spoken;
    client_body_temp_path tmp; proxy_temp_path tmp;
    fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    gzip on; gzip_min_length 1; gzip_types text/plain;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate cert.pem;
        ssl_certificate_key key.pem;
        root pages;
        {headers}
        location = /moved {{ return 302 /page.txt?$args; }}
    }}
}}
"""
HEADERS = "\n".join(f'add_header X-{number} "{LONG}";' for number in range(20))
PAGE = "A page of some words. " * 1000


class Nginx(ServerProcess):
    """A private nginx on 127.0.0.1."""

    name = "nginx"

    def __init__(self, certificate: Path, key: Path) -> None:
        self._program = find_program("nginx", "nginx")
        super().__init__()
        for name, source in (("cert.pem", certificate), ("key.pem", key)):
            self._give(shutil.copy(source, self.folder / name))
        pages = self.folder / "pages"
        pages.mkdir()
        (pages / "page.txt").write_text(PAGE)
        (self.folder / "nginx.conf").write_text(CONFIG.format(port=self.port, headers=HEADERS))
        for path in (pages, pages / "page.txt", self.folder / "nginx.conf"):
            self._give(path)

    def __enter__(self) -> Self:
        command = [self._program, "-p", self.folder, "-c", "nginx.conf", "-e", "stderr"]
        self._spawn(command, self._is_ready)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, path: str = "/page.txt", host: str = "site.test") -> str:
        return f"https://{host}:{self.port}{path}"

    async def spoken(self, mark: str, count: int) -> list[str]:
        """The protocol and path of the `count` requests whose query is `mark`.

        nginx responds first and logs then, so the log may lag behind the response.
        """
        log = self.folder / "spoken.log"
        async with asyncio.timeout(5):
            while True:
                asked = [line.partition("?") for line in log.read_text().splitlines()]
                found = [request for request, _, query in asked if query == mark]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.01)

    def _give(self, path: Path) -> None:
        if self.user:
            shutil.chown(path, self.user)

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

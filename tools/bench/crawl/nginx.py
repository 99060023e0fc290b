"""A private nginx on a core of its own, whose log tells when the first and the last page were fetched."""

import os
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers.process import ServerProcess, find_program
from tools.bench.crawl.cpu import pin
from tools.bench.crawl.store import copy

CONFIG = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    types {{ text/html html; }}
    charset utf-8;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=20000 inactive=10m;
    log_format moments '$msec $status';
    access_log {folder}/access.log moments buffer=256k flush=500ms;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}/pages; }}
}}
"""
FLUSHED = 0.8  # seconds until the log is on the disk


@dataclass(frozen=True, slots=True)
class Visits:
    """What the server has seen of one run."""

    seconds: float  # from the first answer to the last
    statuses: Counter[int]


class Nginx(ServerProcess):
    """Serves folders of pages on 127.0.0.1, each at its place."""

    name = "nginx"

    def __init__(self, pages: Mapping[str, Path], core: int) -> None:
        self._program = find_program("nginx", "nginx-light")
        super().__init__()
        for place, folder in pages.items():
            copy(folder, self.folder / "pages" / place)
        self._core = core
        self._log = self.folder / "access.log"
        self._config = self.folder / "nginx.conf"
        self._config.write_text(CONFIG.format(folder=self.folder, port=self.port))

    @property
    def origin(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._spawn([self._program, "-c", self._config, "-e", "stderr"], self._is_ready)
        pin(self._family(), {self._core})
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget(self) -> None:
        """Begin a new log."""
        time.sleep(FLUSHED)
        os.truncate(self._log, 0)

    def visits(self) -> Visits:
        """Return what has come since `forget`."""
        time.sleep(FLUSHED)
        lines = [line.split() for line in self._log.read_text().splitlines()]
        moments = [float(moment) for moment, _ in lines] or [0.0]
        return Visits(max(moments) - min(moments), Counter(int(status) for _, status in lines))

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

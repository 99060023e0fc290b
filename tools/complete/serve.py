"""Serves a folder of HTML files, or a site that a program makes up, on a free port of this machine."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Render = Callable[[str], bytes]  # from the path and query of a page to its HTML


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def log_message(self, *_: Any) -> None:
        pass


class _Generated(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def __init__(self, render: Render, *given: Any) -> None:
        self._render = render
        super().__init__(*given)

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.send_error(404)
            return
        body = self._render(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(site: Path | Render) -> Iterator[str]:
    """Serve a site from a process of its own; give its address."""
    handler = partial(_Files, directory=str(site)) if isinstance(site, Path) else partial(_Generated, site)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    server.socket.close()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        process.terminate()
        process.join()

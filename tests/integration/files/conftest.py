"""A site whose files are whole, cut, huge, of the wrong type, or slow."""

import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def content_of(path):
    return sha256(path.encode()).digest() * 500


class FileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site, path = self.server, self.path
        with site.lock:
            site.requests.append((path, self.headers.get("if-none-match")))
            site.tokens[path] = self.headers.get("x-auth-token")
            count = sum(one == path for one, _ in site.requests)
        if path.startswith("/gallery/"):
            number = int(path.rpartition("/")[2])
            html = "".join(f'<img src="/img/{one}.png">' for one in range(number))
            return self._send(200, "text/html", html.encode())
        if path.startswith("/cut") and (count == 1 or "always" in path):
            return self._cut(path)
        if path.startswith(("/img/", "/cut", "/big")):
            etag = f'"{sha256(path.encode()).hexdigest()[:8]}"'
            if self.headers.get("if-none-match") == etag:
                return self._send(304, "", b"", etag)
            return self._send(200, "image/png", content_of(path), etag)
        return self._send(404, "text/html", b"gone")

    def _cut(self, path):
        """Announce a file, send half of it, and close the connection."""
        body = content_of(path)
        self.send_response(200)
        self.send_header("content-type", "image/png")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def _send(self, status, kind, body, etag=""):
        self.send_response(status)
        for name, value in (("content-type", kind), ("etag", etag)):
            if value:
                self.send_header(name, value)
        if status != 304:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class FileSite(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), FileHandler)
        self.lock, self.requests, self.tokens = threading.Lock(), [], {}
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        """A client that was killed is no error of the site."""


@pytest.fixture
def site():
    with FileSite() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()

"""A stub of the XML API of Google Cloud Storage: the requests that obstore sends, and the errors it gets.

gcp-storage-emulator of PyPI does not serve: obstore speaks the XML API, of which it has a plain GET and PUT
alone, without an ETag, `x-goog-if-generation-match`, uploads in parts or the codes of errors.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

READ_ONLY, PRIVATE = "no-writing", "shut"  # buckets that refuse
KEPT_HEADERS = ("content-type", "x-goog-meta-")


class GoogleStorageHandler(BaseHTTPRequestHandler):
    """Answers as https://cloud.google.com/storage/docs/xml-api describes."""

    protocol_version = "HTTP/1.1"
    server: "GoogleStorageStub"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer(self._read)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self._answer(self._write)

    def do_POST(self) -> None:
        self._answer(self._write_parts)

    def _answer(self, handle: Any) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        with self.server.lock:
            if self.headers.get("authorization") != f"Bearer {self.server.token}":
                self._fail(401, "AuthenticationRequired")
            elif bucket == PRIVATE or (bucket == READ_ONLY and self.command in ("PUT", "POST")):
                self._fail(403, "AccessDenied")
            elif bucket not in self.server.buckets:
                self._fail(404, "NoSuchBucket")
            else:
                handle(self.server.buckets[bucket], key, query, body)

    def _read(self, objects: dict[str, Any], key: str, query: dict[str, str], body: bytes) -> None:
        if key in objects:
            self._send(200, *objects[key])
        else:
            self._fail(404, "NoSuchKey")

    def _write(self, objects: dict[str, Any], key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            self.server.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._send(200, b"", {"etag": query["partNumber"]})
        elif key in objects and self.headers.get("x-goog-if-generation-match") == "0":
            self._fail(412, "PreconditionFailed")
        else:
            self._store(objects, key, body)

    def _write_parts(self, objects: dict[str, Any], key: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            upload = str(len(self.server.parts))
            self.server.parts[upload] = {}
            name = "InitiateMultipartUploadResult"
            self._send(200, f"<{name}><UploadId>{upload}</UploadId></{name}>".encode(), {})
        else:
            parts = self.server.parts.pop(query["uploadId"])
            etag = self._store(objects, key, b"".join(parts[number] for number in sorted(parts)), send=False)
            xml = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
            self._send(200, xml.encode(), {"x-goog-generation": "1"})

    def _store(self, objects: dict[str, Any], key: str, body: bytes, *, send: bool = True) -> str:
        kept = {
            name.lower(): value
            for name, value in self.headers.items()
            if name.lower().startswith(KEPT_HEADERS)
        }
        etag = f'"{md5(body, usedforsecurity=False).hexdigest()}"'
        fields = {"etag": etag, "x-goog-generation": "1", "last-modified": formatdate(usegmt=True)}
        objects[key] = body, kept | fields
        if send:
            self._send(200, b"", fields)
        return etag

    def _fail(self, status: int, code: str) -> None:
        xml = (
            f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>No.</Message></Error>"
        )
        self._send(status, xml.encode(), {"content-type": "application/xml"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class GoogleStorageStub(ThreadingHTTPServer):
    """Buckets in memory; requests need the right token."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), GoogleStorageHandler)
        self.url, self.token = f"http://127.0.0.1:{self.server_address[1]}", "practice"
        self.lock = threading.Lock()
        self.buckets: dict[str, dict[str, Any]] = {"shop": {}, READ_ONLY: {}, PRIVATE: {}}
        self.parts: dict[str, dict[int, bytes]] = {}

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is no error."""


@contextmanager
def google_storage() -> Iterator[GoogleStorageStub]:
    """Serve the stub until the block ends."""
    with GoogleStorageStub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

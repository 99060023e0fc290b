"""Writes the requests and responses of a crawl to WARC files, with warcio."""

import asyncio
import os
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.core.http import Request, Response
from shoal.core.redact import is_secret_header
from shoal.core.request_options import after_redirect, asked_for
from shoal.core.version import VERSION
from shoal.registry.extras import install_command

SUFFIX = ".warc.gz"
FORMAT = "WARC/1.1"
LEVEL, GZIP = 4, zlib.MAX_WBITS + 16
REQUEST_KEY_FIELD = "Shoal-Asked-For"  # of responses to a POST: the request they belong to
UNCHANGED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
MAX_FILES = 100_000
MAX_SEEN = 50_000  # payloads remembered, so that each is written once
# Bodies are written decoded, so these headers no longer describe them.
TRANSPORT_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
# Recordings are shared with others; session cookies must not be.
COOKIE_HEADERS = frozenset({"set-cookie", "set-cookie2"})

Fields = Iterable[tuple[str, str]]


class WarcWriter:
    """Appends exchanges to a file. Each record is its own gzip member, so a crash loses only the last one.

    A payload that is already in the file is written as a revisit record.
    """

    def __init__(self, file: int, name: str, *, about: Mapping[str, str]) -> None:
        self._file, self.name = file, name  # an open descriptor; `close` closes it
        self._end = 0
        self._buffer = BytesIO()  # warcio writes here
        self._agent = about.get("http-header-user-agent", "")
        self._warc = warcio("warcwriter").WARCWriter(self._buffer, gzip=False, warc_version=FORMAT)
        self._head = warcio("statusandheaders").StatusAndHeaders
        self._seen: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="warc")
        self._append(self._warc.create_warcinfo_record(Path(name).name, dict(about)))

    @classmethod
    def open(cls, path: str | Path, *, user_agent: str, run_id: str = "") -> "WarcWriter":
        """Create a file of this name, or if it exists, with the next number: crawl-2.warc.gz."""
        about = {
            "software": f"shoal/{VERSION}",
            "format": "WARC File Format 1.1",
            "http-header-user-agent": user_agent,
            "isPartOf": run_id,
        }
        warcio("warcwriter")  # a missing library must not leave an empty file behind
        file, name = _new_file(Path(path))
        return cls(file, name, about=about)

    async def write(self, request: Request, response: Response) -> None:
        """Write an exchange and its redirects; raises ExportFailed.

        When this returns, the exchange survives a crash of this process.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self.add, request, response)

    async def close(self) -> None:
        """Close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, os.close, self._file)
        self._thread.shutdown()

    def add(self, request: Request, response: Response) -> None:
        """Write an exchange, each redirect as a pair of records."""
        for hop in response.hops:
            self._add(request, hop.url, hop.status, hop.headers.fields, None)
            method = after_redirect(request.method, hop.status)
            request = replace(request, method=method, post=None if method == "GET" else request.post)
        self._add(request, response.url, response.status, response.headers.fields, response.body)

    def _add(self, request: Request, url: str, status: int, fields: Fields, body: bytes | None) -> None:
        head = self._head(
            _status_line(status), _archive_fields(fields, len(body or b"")), protocol="HTTP/1.1"
        )
        # The body of a redirect was not read.
        more = {} if body is not None else {"WARC-Truncated": "unspecified"}
        if status == HTTPStatus.NOT_MODIFIED:
            response_record = self._record(url, "revisit", head, b"", {"WARC-Profile": UNCHANGED})
        else:
            response_record = self._deduplicate(
                self._record(url, "response", head, body or b"", more), url, head
            )
        if request.post is not None:
            response_record.rec_headers.add_header(
                REQUEST_KEY_FIELD, asked_for(url, request.post, request.method)
            )
        request_record = self._record(
            url, "request", self._request_head(request, url), request.post or b"", {}
        )
        self._append(response_record, request_record)

    def _record(self, url: str, kind: str, head: Any, body: bytes, more: Mapping[str, str]) -> Any:
        payload = BytesIO(body)
        return self._warc.create_warc_record(
            url, kind, payload=payload, length=len(body), http_headers=head, warc_headers_dict=dict(more)
        )

    def _deduplicate(self, response_record: Any, url: str, head: Any) -> Any:
        """Return the record, or a revisit if the file already has its payload."""
        digest = response_record.rec_headers.get_header("WARC-Payload-Digest")
        if not response_record.length:
            return response_record
        if digest in self._seen:
            self._seen.move_to_end(digest)
            return self._warc.create_revisit_record(url, digest, *self._seen[digest], http_headers=head)
        self._seen[digest] = url, response_record.rec_headers.get_header("WARC-Date")
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return response_record

    def _request_head(self, request: Request, url: str) -> Any:
        _, _, host, path = url.split("/", 3)
        fields = {"Host": host, "User-Agent": self._agent}
        if request.url.split("/", 3)[:3] == url.split("/", 3)[:3]:
            fields |= {name: value for name, value in request.headers.items() if not is_secret_header(name)}
        method = "GET" if request.post is None else request.method
        return self._head(f"/{path} HTTP/1.1", list(fields.items()), protocol=method)

    def _append(self, response_record: Any, request_record: Any = None) -> None:
        """Write the records, or leave the file as it was."""
        compressed = self._compress(response_record)
        if request_record is not None:
            head = response_record.rec_headers
            request_record.rec_headers.replace_header("WARC-Date", head.get_header("WARC-Date"))
            request_record.rec_headers.add_header("WARC-Concurrent-To", head.get_header("WARC-Record-ID"))
            compressed += self._compress(request_record)
        try:
            self._end += _write_all(self._file, memoryview(compressed))
        except OSError as error:
            self._seen.clear()  # it may name a payload that was not written
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
                os.lseek(self._file, self._end, os.SEEK_SET)
            advice = "Free disk space, then run the same command with --resume"
            raise ExportFailed(self.name, error.strerror or str(error), advice) from error

    def _compress(self, record: Any) -> bytes:
        """Return a record as its own gzip member."""
        # Not by warcio, which uses the highest level: up to five times slower for 4 % less.
        self._warc.write_record(record)
        compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        compressed = compressor.compress(self._buffer.getbuffer()) + compressor.flush()
        self._buffer.seek(0)
        self._buffer.truncate()
        return compressed


def warcio(module: str) -> Any:
    """Import a module of warcio; raises InvalidSetting if it is not installed."""
    try:
        return import_module(f"warcio.{module}")
    except ModuleNotFoundError as error:
        raise InvalidSetting("warc", f"files need warcio. Run: {install_command('warc')}") from error


def numbered_path(path: Path, number: int) -> Path:
    """Return the path of the file with this number; the first one has the given name."""
    return path if number == 1 else path.with_name(f"{path.name.removesuffix(SUFFIX)}-{number}{SUFFIX}")


def _write_all(file: int, data: memoryview) -> int:
    written = 0
    while written < len(data):
        written += os.write(file, data[written:])
    return written


def _new_file(path: Path) -> tuple[int, str]:
    for number in range(1, MAX_FILES):
        name = numbered_path(path, number)
        try:
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), str(name)
        except FileExistsError:
            continue
        except OSError as error:
            raise InvalidSetting("warc", f"cannot be written to {path}: {error.strerror}") from error
    raise InvalidSetting("warc", f"already has {MAX_FILES:,} files next to {path}. Choose another name")


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"


def _archive_fields(fields: Fields, length: int) -> list[tuple[str, str]]:
    """Return header fields that match the decoded body; the others are renamed."""
    renamed = [
        (f"x-archive-orig-{key}" if key.lower() in TRANSPORT_HEADERS else key, _as_sent(value))
        for key, value in fields
        if key.lower() not in COOKIE_HEADERS
    ]
    return [*renamed, ("content-length", str(length))]


def _as_sent(value: str) -> str:
    """Return a header value with one character per byte, however the HTTP engine decoded it."""
    try:
        return value.encode("latin-1").decode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")

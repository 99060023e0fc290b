"""WARC files: the exchanges of a crawl as web archives keep them, written through warcio."""

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

from shoal.core.ask import SENT_ON, asked_for
from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.core.exchange import Request, Response
from shoal.core.redact import is_secret_header
from shoal.core.version import VERSION

SUFFIX = ".warc.gz"
FORMAT = "WARC/1.1"
LEVEL, GZIP = 4, zlib.MAX_WBITS + 16
ASKED_FOR = "Shoal-Asked-For"  # a field of answers to a POST: what tells them apart
UNCHANGED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
MOST_FILES = 100_000
MOST_SEEN = 50_000  # payloads that are known again, and written once
# Bodies are written as they were read, so these no longer say what is true of them.
OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
# A record is handed on to others; what lets one in is not.
OF_ONE_VISITOR = frozenset({"set-cookie", "set-cookie2"})

Fields = Iterable[tuple[str, str]]


class WarcWriter:
    """Adds exchanges to a file, each record a piece of its own: after a crash all but the last can be read.

    A payload that the file has already is written as a revisit of the first.
    """

    def __init__(self, file: int, name: str, *, about: Mapping[str, str]) -> None:
        self._file, self.name = file, name  # an open descriptor, which this closes
        self._end = 0
        self._plain = BytesIO()  # where warcio writes
        self._agent = about.get("http-header-user-agent", "")
        self._warc = warcio("warcwriter").WARCWriter(self._plain, gzip=False, warc_version=FORMAT)
        self._head = warcio("statusandheaders").StatusAndHeaders
        self._seen: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="warc")
        self._put(self._warc.create_warcinfo_record(Path(name).name, dict(about)))

    @classmethod
    def open(cls, path: str | Path, *, user_agent: str, run_id: str = "") -> "WarcWriter":
        """Make a file of this name, or where there is one, of the next number: crawl-2.warc.gz."""
        about = {
            "software": f"shoal/{VERSION}",
            "format": "WARC File Format 1.1",
            "http-header-user-agent": user_agent,
            "isPartOf": run_id,
        }
        warcio("warcwriter")  # a missing driver leaves no empty file behind
        file, name = _new_file(Path(path))
        return cls(file, name, about=about)

    async def write(self, request: Request, response: Response) -> None:
        """Write an exchange and the redirects that led to it; raises ExportFailed.

        When this returns, the exchange is safe from the end of this process.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self.add, request, response)

    async def close(self) -> None:
        """Finish the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, os.close, self._file)
        self._thread.shutdown()

    def add(self, request: Request, response: Response) -> None:
        """Write an exchange, each hop as a pair of records."""
        for hop in response.hops:
            self._add(request, hop.url, hop.status, hop.headers.fields, None)
            if hop.status not in SENT_ON:
                request = replace(request, post=None)
        self._add(request, response.url, response.status, response.headers.fields, response.body)

    def _add(self, request: Request, url: str, status: int, fields: Fields, body: bytes | None) -> None:
        head = self._head(_status_line(status), _true_fields(fields, len(body or b"")), protocol="HTTP/1.1")
        # The body of a redirect was not read.
        more = {} if body is not None else {"WARC-Truncated": "unspecified"}
        if status == HTTPStatus.NOT_MODIFIED:
            answer = self._record(url, "revisit", head, b"", {"WARC-Profile": UNCHANGED})
        else:
            answer = self._once(self._record(url, "response", head, body or b"", more), url, head)
        if request.post is not None:
            answer.rec_headers.add_header(ASKED_FOR, asked_for(url, request.post))
        asked = self._record(url, "request", self._asked(request, url), request.post or b"", {})
        self._put(answer, asked)

    def _record(self, url: str, kind: str, head: Any, body: bytes, more: Mapping[str, str]) -> Any:
        payload = BytesIO(body)
        return self._warc.create_warc_record(
            url, kind, payload=payload, length=len(body), http_headers=head, warc_headers_dict=dict(more)
        )

    def _once(self, answer: Any, url: str, head: Any) -> Any:
        """Return a record, or a revisit where the file has its payload."""
        digest = answer.rec_headers.get_header("WARC-Payload-Digest")
        if not answer.length:
            return answer
        if digest in self._seen:
            self._seen.move_to_end(digest)
            return self._warc.create_revisit_record(url, digest, *self._seen[digest], http_headers=head)
        self._seen[digest] = url, answer.rec_headers.get_header("WARC-Date")
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        return answer

    def _asked(self, request: Request, url: str) -> Any:
        _, _, host, path = url.split("/", 3)
        fields = {"Host": host, "User-Agent": self._agent}
        if request.url.split("/", 3)[:3] == url.split("/", 3)[:3]:
            fields |= {name: value for name, value in request.headers.items() if not is_secret_header(name)}
        method = "GET" if request.post is None else "POST"
        return self._head(f"/{path} HTTP/1.1", list(fields.items()), protocol=method)

    def _put(self, answer: Any, asked: Any = None) -> None:
        """Write records, or leave the file as it was."""
        packed = self._packed(answer)
        if asked is not None:
            head = answer.rec_headers
            asked.rec_headers.replace_header("WARC-Date", head.get_header("WARC-Date"))
            asked.rec_headers.add_header("WARC-Concurrent-To", head.get_header("WARC-Record-ID"))
            packed += self._packed(asked)
        try:
            self._end += _write_all(self._file, memoryview(packed))
        except OSError as error:
            self._seen.clear()  # it may name a payload that is not there
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
                os.lseek(self._file, self._end, os.SEEK_SET)
            advice = "Make room, then run the same command with --resume"
            raise ExportFailed(self.name, error.strerror or str(error), advice) from error

    def _packed(self, record: Any) -> bytes:
        """Return a record as a gzip member of its own."""
        # Not by warcio, which compresses as hard as can be: up to five times the time for 4 % less.
        self._warc.write_record(record)
        packing = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        packed = packing.compress(self._plain.getbuffer()) + packing.flush()
        self._plain.seek(0)
        self._plain.truncate()
        return packed


def warcio(module: str) -> Any:
    """Return a module of warcio; raises InvalidSetting where it is not installed."""
    try:
        return import_module(f"warcio.{module}")
    except ModuleNotFoundError as error:
        raise InvalidSetting("warc", "files need their library. Run: pip install 'shoal[warc]'") from error


def numbered(path: Path, number: int) -> Path:
    """Return the name of a file by its number; the first has the name that was given."""
    return path if number == 1 else path.with_name(f"{path.name.removesuffix(SUFFIX)}-{number}{SUFFIX}")


def _write_all(file: int, data: memoryview) -> int:
    written = 0
    while written < len(data):
        written += os.write(file, data[written:])
    return written


def _new_file(path: Path) -> tuple[int, str]:
    for number in range(1, MOST_FILES):
        name = numbered(path, number)
        try:
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), str(name)
        except FileExistsError:
            continue
        except OSError as error:
            raise InvalidSetting("warc", f"cannot be written to {path}: {error.strerror}") from error
    raise InvalidSetting("warc", f"has {MOST_FILES:,} files beside {path}. Name another")


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"


def _true_fields(fields: Fields, length: int) -> list[tuple[str, str]]:
    """Return header fields that fit the body as it is written; the others are kept by another name."""
    named = [
        (f"x-archive-orig-{key}" if key.lower() in OF_THE_WIRE else key, _as_sent(value))
        for key, value in fields
        if key.lower() not in OF_ONE_VISITOR
    ]
    return [*named, ("content-length", str(length))]


def _as_sent(value: str) -> str:
    """Return a header's value with a character for each byte, however the engine has read it."""
    try:
        return value.encode("latin-1").decode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")

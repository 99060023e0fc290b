"""Reads WARC files: an index of their responses."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.commands import record_command
from shoal.core.errors import InvalidSetting, InvalidUrl, TooLarge
from shoal.core.http import Headers, Response
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.export.archive.warc import REQUEST_KEY_FIELD, SUFFIX, TRANSPORT_HEADERS, numbered_path, warcio

SUFFIXES = (SUFFIX, ".warc")
CHUNK = 1 << 20


class WarcPosition(NamedTuple):
    """Where a response is; for a revisit, `body` is the offset of the original."""

    file: int
    offset: int
    body: int


class WarcArchive:
    """The responses of a recording: a file with the numbered ones next to it, or a folder.

    The last of several responses to one URL counts. A record cut off by a crash is ignored.
    """

    def __init__(self, path: str | Path, *, max_body: int) -> None:
        self.name, self._max_body = str(path), max_body
        self._files = files_of(Path(path))
        self._positions: dict[bytes, WarcPosition] = {}
        self.first: str | None = None  # recorded page
        for number in range(len(self._files)):
            self._index(number)
        if not self._positions:
            again = record_command(Path(path))
            raise InvalidSetting("playback", f"found no response in {path}. Make a recording: {again}")

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, request_key: str) -> Response | None:
        """Return the response for a request key (a canonical URL, or a POST to it); None if not recorded."""
        position = self._positions.get(_digest(request_key))
        if position is None:
            return None
        head, body = self._read(position.file, position.offset)
        if position.body != position.offset:
            _, body = self._read(position.file, position.body)
        fields = [field for field in head.headers if field[0].lower() not in TRANSPORT_HEADERS]
        url = request_key.partition(" ")[0]
        return Response(url=url, status=int(head.get_statuscode()), headers=Headers(fields), body=body)

    def _read(self, file: int, offset: int) -> tuple[Any, bytes]:
        with self._files[file].open("rb") as stream:
            stream.seek(offset)
            record = next(iter(warcio("archiveiterator").ArchiveIterator(stream)))
            return record.http_headers, self._body(record)

    def _body(self, record: Any) -> bytes:
        stream, parts, size = record.content_stream(), list[bytes](), 0
        while part := stream.read(CHUNK):
            parts.append(part)
            size += len(part)
            if size > self._max_body:
                raise TooLarge(f"The recorded response has more than {self._max_body:,} bytes")
        return b"".join(parts)

    def _index(self, number: int) -> None:
        bodies: dict[str, int] = {}  # offsets by digest, for the revisits of this file
        for record, offset in _records(self._files[number]):
            url, digest = _url(record), record.rec_headers.get_header("WARC-Payload-Digest")
            if record.rec_type == "response" and digest:
                bodies.setdefault(digest, offset)
            body = offset if record.rec_type == "response" else bodies.get(digest or "")
            if url is None or body is None:
                continue
            request_key = record.rec_headers.get_header(REQUEST_KEY_FIELD) or url
            self._positions[_digest(request_key)] = WarcPosition(number, offset, body)
            if self.first is None and not url.endswith("/robots.txt"):
                self.first = url


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording; raises InvalidSetting."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    else:
        found = [path] if path.is_file() else []
        while (
            found and path.name.endswith(SUFFIX) and (after := numbered_path(path, len(found) + 1)).is_file()
        ):
            found.append(after)
    if not found:
        raise InvalidSetting("playback", f"found no recording at {path}. Make one: {record_command(path)}")
    return found


def _records(path: Path) -> Iterator[tuple[Any, int]]:
    """Yield the complete responses of a file and their offsets."""
    with path.open("rb") as stream:
        records = warcio("archiveiterator").ArchiveIterator(stream)
        try:
            for record in records:
                offset = records.get_record_offset()
                if getattr(record.raw_stream, "limit", 0):
                    return  # cut off by a crash
                if record.rec_type in ("response", "revisit") and _is_response(record.http_headers):
                    yield record, offset
        except Exception as error:  # of warcio, of zlib, and what odd bytes cause in either
            if records.offset == 0:
                reason = shorten(" ".join(str(error).split()), 200)
                raise InvalidSetting("playback", f"cannot read {path}: not a WARC file: {reason}") from error


def _is_response(head: Any) -> bool:
    return bool(head) and head.get_statuscode().isdecimal()


def _digest(request_key: str) -> bytes:
    """Return a 16-byte digest, to save memory: a recording may have millions of entries."""
    return blake2b(request_key.encode(), digest_size=16).digest()


def _url(record: Any) -> str | None:
    try:
        return canonical(record.rec_headers.get_header("WARC-Target-URI") or "")
    except InvalidUrl:
        return None

"""Reading WARC files: which answers they hold, and where."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import InvalidSetting, InvalidUrl, TooLarge, shorten
from shoal.core.exchange import Headers, Response
from shoal.core.urls import canonical
from shoal.export.warc import ASKED_FOR, OF_THE_WIRE, SUFFIX, numbered, warcio

SUFFIXES = (SUFFIX, ".warc")
STEP = 1 << 20


class Place(NamedTuple):
    """Where an answer lies; that of its body differs where the file has it only once."""

    file: int
    offset: int
    body: int


class WarcRecord:
    """What a recording holds: a file, with the numbered ones beside it, or a folder of them.

    Of several answers to one URL the last counts. What a crash has cut off is left out.
    """

    def __init__(self, path: str | Path, *, most: int) -> None:
        self.name, self._most = str(path), most
        self._files = files_of(Path(path))
        self._places: dict[bytes, Place] = {}
        self.first: str | None = None  # page that was recorded
        for number in range(len(self._files)):
            self._index(number)
        if not self._places:
            raise InvalidSetting(
                "replay", f"finds no answer in {path}. Make a recording: shoal run … --warc {path}"
            )

    def __len__(self) -> int:
        return len(self._places)

    def find(self, asked: str) -> Response | None:
        """Return the answer to what was asked for, a canonical URL or a POST to it; None if not recorded."""
        place = self._places.get(_name(asked))
        if place is None:
            return None
        head, body = self._read(place.file, place.offset)
        if place.body != place.offset:
            _, body = self._read(place.file, place.body)
        fields = [field for field in head.headers if field[0].lower() not in OF_THE_WIRE]
        url = asked.partition(" ")[0]
        return Response(url=url, status=int(head.get_statuscode()), headers=Headers(fields), body=body)

    def _read(self, file: int, offset: int) -> tuple[Any, bytes]:
        with self._files[file].open("rb") as stream:
            stream.seek(offset)
            record = next(iter(warcio("archiveiterator").ArchiveIterator(stream)))
            return record.http_headers, self._body(record)

    def _body(self, record: Any) -> bytes:
        stream, parts, size = record.content_stream(), list[bytes](), 0
        while part := stream.read(STEP):
            parts.append(part)
            size += len(part)
            if size > self._most:
                raise TooLarge(f"The recorded answer has more than {self._most:,} bytes")
        return b"".join(parts)

    def _index(self, number: int) -> None:
        bodies: dict[str, int] = {}  # by digest, for the revisits of this file
        for record, offset in _records(self._files[number]):
            url, digest = _url(record), record.rec_headers.get_header("WARC-Payload-Digest")
            if record.rec_type == "response" and digest:
                bodies.setdefault(digest, offset)
            body = offset if record.rec_type == "response" else bodies.get(digest or "")
            if url is None or body is None:
                continue
            asked = record.rec_headers.get_header(ASKED_FOR) or url
            self._places[_name(asked)] = Place(number, offset, body)
            if self.first is None and not url.endswith("/robots.txt"):
                self.first = url


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording; raises InvalidSetting."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    else:
        found = [path] if path.is_file() else []
        while found and path.name.endswith(SUFFIX) and (after := numbered(path, len(found) + 1)).is_file():
            found.append(after)
    if not found:
        raise InvalidSetting("replay", f"finds no recording at {path}. Make one: shoal run … --warc {path}")
    return found


def _records(path: Path) -> Iterator[tuple[Any, int]]:
    """Yield the whole answers of a file and where they begin."""
    with path.open("rb") as stream:
        records = warcio("archiveiterator").ArchiveIterator(stream)
        try:
            for record in records:
                offset = records.get_record_offset()
                if getattr(record.raw_stream, "limit", 0):
                    return  # cut off
                if record.rec_type in ("response", "revisit") and _is_answer(record.http_headers):
                    yield record, offset
        except Exception as error:  # warcio's own, zlib's, and what odd bytes bring about in either
            if records.offset == 0:
                reason = shorten(" ".join(str(error).split()), 200)
                raise InvalidSetting("replay", f"cannot read {path}: it is no WARC file: {reason}") from error


def _is_answer(head: Any) -> bool:
    return bool(head) and head.get_statuscode().isdecimal()


def _name(asked: str) -> bytes:
    """Return 16 bytes for a text: a recording may hold millions."""
    return blake2b(asked.encode(), digest_size=16).digest()


def _url(record: Any) -> str | None:
    try:
        return canonical(record.rec_headers.get_header("WARC-Target-URI") or "")
    except InvalidUrl:
        return None

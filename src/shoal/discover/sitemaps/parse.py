"""Reads the text of a sitemap, packed or not, XML or lines, into its entries."""

import re
import zlib
from calendar import monthrange
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, NoReturn
from xml.parsers.expat import ExpatError, ParserCreate

import msgspec

from shoal.core.errors import ParseFailed, TooLarge
from shoal.core.text import shorten
from shoal.discover.files.lines import GZIP
from shoal.discover.source import shown

DAY = timedelta(days=1)
_LINE_END = re.compile(r"[\r\n]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

CHUNK = 64 << 10
MAX_MEMBERS = 1_000  # of one gzip file: each needs a new decompressor, and an empty one has only 20 bytes

_BOM, _BLANK = b"\xef\xbb\xbf", b" \t\r\n"
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
_WEB = ("http://", "https://")

MAX_DEPTH = 32
MAX_NAMES = 1_000  # distinct names of tags and attributes; the parser keeps each in memory
MAX_TAG = 1 << 20  # bytes; a tag must be held in memory as a whole
MAX_TEXT = 8_200  # characters: slightly more than the longest URL
MAX_TITLE = 300
MAX_DATE = 40
MAX_MEDIA = 20  # images and videos of a page that are kept

# The tag of an entry by the root tag of the file.
_RECORDS = {"urlset": "url", "sitemapindex": "sitemap"}
_FEEDS = ("rss", "RDF", "feed")
# The fields of an entry that are read, by parent tag and tag.
_FIELDS = frozenset(
    {
        *((record, name) for record in ("url", "sitemap") for name in ("loc", "lastmod")),
        *(("news", name) for name in ("title", "publication_date", "keywords")),
        *(("publication", name) for name in ("name", "language")),
        ("image", "loc"),
        *(("video", name) for name in ("title", "content_loc", "player_loc", "thumbnail_loc")),
    }
)
_RENAMED = {"publication_date": "date", "name": "publication"}


class SitemapEntry(msgspec.Struct):
    """An entry of a sitemap for one page, or of an index for one sitemap."""

    loc: str = ""
    lastmod: str = ""
    is_sitemap: bool = False
    more: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def has_url(self) -> bool:
        """Whether `loc` is a URL or a path; real sitemaps contain arbitrary text."""
        return self.loc.startswith("/") or bool(_SCHEME.match(self.loc))

    def payload(self) -> dict[str, Any]:
        """Return the data of the entry except its URL."""
        return {"lastmod": self.lastmod, **self.more} if self.lastmod else self.more


def latest_time(text: str) -> datetime | None:
    """Return the latest time that a date may mean; None if it is not a date.

    "2026-02" is the end of that February: a filter must not drop what may be newer.
    """
    try:
        return _parse_iso(text)
    except (ValueError, OverflowError):
        pass
    try:
        return _aware(parsedate_to_datetime(text))  # the format of feeds
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _parse_iso(text: str) -> datetime:
    if len(text) == 4:
        return datetime(int(text) + 1, 1, 1, tzinfo=UTC)
    if len(text) == 7 and text[4] == "-":
        year, month = int(text[:4]), int(text[5:])
        return datetime(year, month, monthrange(year, month)[1], tzinfo=UTC) + DAY
    moment = _aware(datetime.fromisoformat(text))
    return moment + DAY if len(text) == 10 else moment


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_chunks(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """Yield a body, decompressed if it is gzip; raises TooLarge beyond the limit, or ParseFailed."""
    chunks = _decompress(body) if body[:2] == GZIP else _split(body)
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge(f"it has more than {max_bytes:,} bytes")
        yield chunk


def _split(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), CHUNK):
        yield body[start : start + CHUNK]


def _decompress(body: bytes) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(31)
    members = 1
    for data in _split(body):
        while data:
            try:
                yield decompressor.decompress(data, CHUNK)
            except zlib.error as error:
                raise ParseFailed(f"its gzip data is damaged: {error}") from error
            data = decompressor.unconsumed_tail
            if decompressor.eof:
                # What follows is the next member, or garbage that is ignored.
                data = decompressor.unused_data
                if data[:2] != GZIP:
                    return
                decompressor, members = zlib.decompressobj(31), members + 1
                if members > MAX_MEMBERS:
                    raise ParseFailed(f"its gzip data has more than {MAX_MEMBERS:,} members")
    raise ParseFailed("its gzip data is truncated")


def entries_of(body: bytes, max_bytes: int) -> Iterator[list[SitemapEntry]]:
    """Yield the entries of a file in batches; raises ParseFailed, or TooLarge beyond `max_bytes`."""
    chunks = read_chunks(body, max_bytes)
    first = _skip_blank(chunks)
    if not first:
        raise ParseFailed("it is empty")
    whole = chain([first], chunks)
    if first[:1] == b"<" or first[:2] in _UTF16:
        return XmlReader().entries(whole)
    return _parse_list(whole)


def _skip_blank(chunks: Iterator[bytes]) -> bytes:
    # XML must begin with its declaration, but many sites send blank lines first.
    for chunk in chunks:
        if begun := chunk.removeprefix(_BOM).lstrip(_BLANK):
            return begun
    return b""


def _parse_list(chunks: Iterable[bytes]) -> Iterator[list[SitemapEntry]]:
    """Yield the entries of each chunk of a list of URLs; of a long line, the beginning."""
    decode = getincrementaldecoder("utf-8")("replace").decode
    rest, is_first = "", True
    for chunk in chain(chunks, [b"\n"]):
        *lines, rest = _LINE_END.split(rest + decode(chunk))
        rest = rest[:MAX_TEXT]
        urls = [url[:MAX_TEXT] for line in lines if (url := line.strip())]
        if is_first and urls and not urls[0].lower().startswith(_WEB):
            raise ParseFailed("it is neither XML nor a list of URLs")
        is_first = is_first and not urls
        yield [SitemapEntry(loc=url) for url in urls]


class XmlReader:
    """Extracts the entries of a file; raises ParseFailed, whose text completes "The file was not read: …"."""

    def __init__(self) -> None:
        self._parser = parser = ParserCreate()
        parser.buffer_text = parser.specified_attributes = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        # XML bombs and external files hide in DTD declarations; no sitemap needs them.
        parser.EntityDeclHandler = parser.AttlistDeclHandler = parser.ElementDeclHandler = _refuse_declaration
        parser.NotationDeclHandler = parser.ExternalEntityRefHandler = _refuse_declaration
        self._locals: dict[str, str] = {}
        self._path: list[str] = []
        self._record, self._record_depth = "", 0
        self._entry: SitemapEntry | None = None
        self._video: dict[str, str] = {}
        self._text: list[str] = []
        self._size = self._fed = 0
        self._found: list[SitemapEntry] = []

    def entries(self, chunks: Iterable[bytes]) -> Iterator[list[SitemapEntry]]:
        """Yield the entries of each chunk; those before an error are yielded before it is raised."""
        try:
            for chunk in chunks:
                self._feed(chunk)
                yield self._take_found()
            self._parser.Parse(b"", True)
        except (ExpatError, ValueError, LookupError) as error:
            yield self._take_found()
            raise ParseFailed(f"broken XML: {error}") from error
        except ParseFailed:
            yield self._take_found()
            raise

    def _feed(self, chunk: bytes) -> None:
        self._parser.Parse(chunk)
        self._fed += len(chunk)
        if self._fed - self._parser.CurrentByteIndex > MAX_TAG:
            raise ParseFailed(f"it has a tag or comment of more than {MAX_TAG:,} bytes")
        if len(self._parser.intern) > MAX_NAMES:
            raise ParseFailed(f"its tags have more than {MAX_NAMES:,} different names")

    def _take_found(self) -> list[SitemapEntry]:
        found, self._found = self._found, []
        return found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = self._locals.get(name) or self._local(name)
        path = self._path
        if not path:
            self._record = _record_of(local)
        elif len(path) >= MAX_DEPTH:
            raise ParseFailed(f"its tags are nested more than {MAX_DEPTH} deep")
        elif self._entry is None:
            if local == self._record:
                self._entry = SitemapEntry(is_sitemap=local == "sitemap")
                self._record_depth = len(path)
        elif (path[-1], local) in _FIELDS:
            self._text = []
            self._size = 0
            self._parser.CharacterDataHandler = self._data
        path.append(local)

    def _end(self, name: str) -> None:
        local = self._path.pop()
        if self._entry is None:
            return
        parent = self._path[-1]
        if len(self._path) == self._record_depth:
            self._found.append(self._entry)
            self._entry = None
        elif (parent, local) in _FIELDS:
            self._parser.CharacterDataHandler = None
            if text := "".join(self._text).strip():
                self._set_field(self._entry, parent, local, text)
        elif local == "video":
            _add(self._entry, "videos", self._video)
            self._video = {}

    def _data(self, text: str) -> None:
        if self._size <= MAX_TEXT:
            self._text.append(text)
            self._size += len(text)

    def _set_field(self, entry: SitemapEntry, parent: str, name: str, text: str) -> None:
        if parent == self._record:
            if name == "lastmod":
                entry.lastmod = text[:MAX_DATE]
            else:
                entry.loc = entry.loc or text
        elif parent == "image":
            _add(entry, "images", text[:MAX_TEXT])
        elif parent == "video":
            self._video[name] = shorten(text, MAX_TITLE) if name == "title" else text[:MAX_TEXT]
        else:  # news, and its publication
            entry.more.setdefault("news", {})[_RENAMED.get(name, name)] = shorten(text, MAX_TITLE)

    def _local(self, name: str) -> str:
        local = self._locals[name] = name.rpartition(":")[2] or name
        return local


def _record_of(root: str) -> str:
    if root in _RECORDS:
        return _RECORDS[root]
    if root in _FEEDS:
        raise ParseFailed("it is a feed, not a sitemap. Read it with: --feed URL")
    if root.lower() == "html":
        raise ParseFailed("it is an HTML page, not a sitemap")
    raise ParseFailed(f"its root element is <{shown(shorten(root, 40))}>, so it is not a sitemap")


def _refuse_declaration(*_: Any) -> NoReturn:
    raise ParseFailed("its DOCTYPE declares entities or elements, as XML bombs do")


def _add(entry: SitemapEntry, name: str, what: Any) -> None:
    listed = entry.more.setdefault(name, [])
    if len(listed) < MAX_MEDIA:
        listed.append(what)

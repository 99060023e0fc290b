"""Parse XML sitemaps and feeds in chunks, as untrusted input."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn
from xml.parsers.expat import ExpatError, ParserCreate

from shoal.core.errors import ParseFailed
from shoal.core.text import shorten
from shoal.discover.sitemaps.entry import SitemapEntry
from shoal.discover.source import shown

MAX_DEPTH = 32
MAX_NAMES = 1_000  # distinct names of tags and attributes; the parser keeps each in memory
MAX_TAG = 1 << 20  # bytes; a tag must be held in memory as a whole
MAX_TEXT = 8_200  # characters: slightly more than the longest URL
MAX_TITLE = 300
MAX_DATE = 40
MAX_MEDIA = 20  # images and videos of a page that are kept

# The tag of an entry by the root tag of the file.
_RECORDS = {"urlset": "url", "sitemapindex": "sitemap", "rss": "item", "RDF": "item", "feed": "entry"}
# The fields of an entry that are read, by parent tag and tag.
_FIELDS = frozenset(
    {
        *((record, "loc") for record in ("url", "sitemap")),
        *((record, "lastmod") for record in ("url", "sitemap")),
        *(("item", name) for name in ("link", "pubDate", "date")),
        *(("entry", name) for name in ("link", "updated")),
        *(("news", name) for name in ("title", "publication_date", "keywords")),
        *(("publication", name) for name in ("name", "language")),
        ("image", "loc"),
        *(("video", name) for name in ("title", "content_loc", "player_loc", "thumbnail_loc")),
    }
)
_LASTMOD = frozenset({"lastmod", "pubDate", "date", "updated"})
_RENAMED = {"publication_date": "date", "name": "publication"}


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
                is_feed = local in ("item", "entry")
                self._entry = SitemapEntry(is_sitemap=local == "sitemap", is_feed=is_feed)
                self._record_depth = len(path)
        elif (path[-1], local) in _FIELDS:
            self._text = []
            self._size = 0
            self._parser.CharacterDataHandler = self._data
            if local == "link" and "href" in attributes:
                self._link(self._entry, attributes)
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
            if name in _LASTMOD:
                entry.lastmod = text[:MAX_DATE]
            else:
                entry.loc = entry.loc or text
        elif parent == "image":
            _add(entry, "images", text[:MAX_TEXT])
        elif parent == "video":
            self._video[name] = shorten(text, MAX_TITLE) if name == "title" else text[:MAX_TEXT]
        else:  # news, and its publication
            entry.more.setdefault("news", {})[_RENAMED.get(name, name)] = shorten(text, MAX_TITLE)

    def _link(self, entry: SitemapEntry, attributes: dict[str, str]) -> None:
        if attributes.get("rel", "alternate") == "alternate" and not entry.loc:
            entry.loc = attributes["href"][:MAX_TEXT].strip()

    def _local(self, name: str) -> str:
        local = self._locals[name] = name.rpartition(":")[2] or name
        return local


def _record_of(root: str) -> str:
    if root in _RECORDS:
        return _RECORDS[root]
    if root.lower() == "html":
        raise ParseFailed("it is an HTML page, not a sitemap")
    raise ParseFailed(f"its root element is <{shown(shorten(root, 40))}>, so it is not a sitemap")


def _refuse_declaration(*_: Any) -> NoReturn:
    raise ParseFailed("its DOCTYPE declares entities or elements, as XML bombs do")


def _add(entry: SitemapEntry, name: str, what: Any) -> None:
    listed = entry.more.setdefault(name, [])
    if len(listed) < MAX_MEDIA:
        listed.append(what)

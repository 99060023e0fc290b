"""Reads sitemaps and feeds in XML, piece by piece, and trusts no byte of them."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn
from xml.parsers.expat import ExpatError, ParserCreate

from shoal.core.errors import ParseFailed, shorten
from shoal.discover.sitemap_entry import Entry
from shoal.discover.source import shown

MAX_DEPTH = 32
MAX_NAMES = 1_000  # different names of tags and attributes, each of which the parser keeps
MAX_TAG = 1 << 20  # bytes; a tag must be held whole
MAX_TEXT = 8_200  # characters: a little more than a URL may have
MAX_TITLE = 300
MAX_DATE = 40
MOST_MEDIA = 20  # images and videos of a page that are kept

# Which tag holds the entries of which kind of file.
_RECORDS = {"urlset": "url", "sitemapindex": "sitemap", "rss": "item", "RDF": "item", "feed": "entry"}
# What is read of an entry, by the names of a tag and of the one around it.
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
    """Finds the entries of one file; raises ParseFailed, whose text completes "The file was not read: …"."""

    def __init__(self) -> None:
        self._parser = parser = ParserCreate()
        parser.buffer_text = parser.specified_attributes = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        # A DTD's own declarations are where bombs and foreign files hide; no sitemap needs them.
        parser.EntityDeclHandler = parser.AttlistDeclHandler = parser.ElementDeclHandler = _declared
        parser.NotationDeclHandler = parser.ExternalEntityRefHandler = _declared
        self._locals: dict[str, str] = {}
        self._path: list[str] = []
        self._record, self._record_depth = "", 0
        self._entry: Entry | None = None
        self._video: dict[str, str] = {}
        self._text: list[str] = []
        self._size = self._fed = 0
        self._found: list[Entry] = []

    def entries(self, pieces: Iterable[bytes]) -> Iterator[list[Entry]]:
        """Yield the entries of each piece; those before an error come before it is raised."""
        try:
            for piece in pieces:
                self._feed(piece)
                yield self._taken()
            self._parser.Parse(b"", True)
        except (ExpatError, ValueError, LookupError) as error:
            yield self._taken()
            raise ParseFailed(f"broken XML: {error}") from error
        except ParseFailed:
            yield self._taken()
            raise

    def _feed(self, piece: bytes) -> None:
        self._parser.Parse(piece)
        self._fed += len(piece)
        if self._fed - self._parser.CurrentByteIndex > MAX_TAG:
            raise ParseFailed(f"it has a tag or comment of more than {MAX_TAG:,} bytes")
        if len(self._parser.intern) > MAX_NAMES:
            raise ParseFailed(f"its tags have more than {MAX_NAMES:,} different names")

    def _taken(self) -> list[Entry]:
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
                self._entry = Entry(is_sitemap=local == "sitemap", is_feed=is_feed)
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
        around = self._path[-1]
        if len(self._path) == self._record_depth:
            self._found.append(self._entry)
            self._entry = None
        elif (around, local) in _FIELDS:
            self._parser.CharacterDataHandler = None
            if text := "".join(self._text).strip():
                self._keep(self._entry, around, local, text)
        elif local == "video":
            _add(self._entry, "videos", self._video)
            self._video = {}

    def _data(self, text: str) -> None:
        if self._size <= MAX_TEXT:
            self._text.append(text)
            self._size += len(text)

    def _keep(self, entry: Entry, around: str, name: str, text: str) -> None:
        if around == self._record:
            if name in _LASTMOD:
                entry.lastmod = text[:MAX_DATE]
            else:
                entry.loc = entry.loc or text
        elif around == "image":
            _add(entry, "images", text[:MAX_TEXT])
        elif around == "video":
            self._video[name] = shorten(text, MAX_TITLE) if name == "title" else text[:MAX_TEXT]
        else:  # news, and its publication
            entry.more.setdefault("news", {})[_RENAMED.get(name, name)] = shorten(text, MAX_TITLE)

    def _link(self, entry: Entry, attributes: dict[str, str]) -> None:
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
    raise ParseFailed(f"it is XML with <{shown(shorten(root, 40))}> in it, not a sitemap")


def _declared(*_: Any) -> NoReturn:
    raise ParseFailed("its DOCTYPE declares entities or the like, as XML bombs and stolen files do")


def _add(entry: Entry, name: str, what: Any) -> None:
    listed = entry.more.setdefault(name, [])
    if len(listed) < MOST_MEDIA:
        listed.append(what)

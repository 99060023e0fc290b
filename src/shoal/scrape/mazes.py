"""Parts of a site that lead nowhere: page after page gives no item, and links only to more of the same."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.scrape.address import dissect
from shoal.scrape.seen import Seen

BARREN = 200  # links of one part that are followed without one of its pages being of use
PER_PAGE = 50  # links of one page that count: a long list may be the only way to the good pages
MAX_PARTS = 5_000
MAX_FOLDERS = 100  # of a host that are told apart

_encode = msgspec.json.Encoder().encode
_URL = re.compile(rb'https?://[^"\\]*')


class Mazes:
    """Which parts of the sites have been of use to one worker."""

    def __init__(self) -> None:
        self._barren: OrderedDict[str, int] = OrderedDict()
        self._folders: OrderedDict[str, set[str]] = OrderedDict()
        self._fruitful: OrderedDict[str, None] = OrderedDict()
        self._items = Seen()

    def part_of(self, url: str) -> str:
        """Return the part of the site that an address lies in; beyond the first few folders all are one."""
        address = dissect(url)
        folders = self._folders.setdefault(address.host, set())
        _bound(self._folders)
        if address.section in folders or len(folders) < MAX_FOLDERS:
            folders.add(address.section)
            return address.section
        return f"{address.host}/*/"

    def gives_news(self, part: str, items: Iterable[Any]) -> bool:
        """Tell whether an item of a page is new, whatever addresses it holds, and remember that."""
        news = sum(self._items.add(_URL.sub(b"", _encode(item))) for item in items)
        if not news:
            return False
        self.bears_fruit(_host(part))
        self.useful(part)
        return True

    def bears_fruit(self, host: str) -> None:
        """Note that a page of a host gave an item."""
        self._fruitful[host] = None
        _bound(self._fruitful)

    def useful(self, part: str) -> None:
        """Note that a page of a part gave an item, or a link into another part or for another step."""
        self._barren.pop(part, None)

    def is_closed(self, part: str) -> bool:
        """Tell whether links of useless pages into their own part are no longer followed."""
        # That a page gives no item says something only where others do.
        return self._barren.get(part, 0) >= BARREN and _host(part) in self._fruitful

    def charge(self, part: str, links: int) -> None:
        """Count the new links of a useless page into its own part."""
        self._barren[part] = self._barren.get(part, 0) + min(links, PER_PAGE)
        self._barren.move_to_end(part)
        _bound(self._barren)


def _host(part: str) -> str:
    return part.partition("/")[0]


def _bound(table: OrderedDict[str, Any]) -> None:
    if len(table) > MAX_PARTS:
        table.popitem(last=False)

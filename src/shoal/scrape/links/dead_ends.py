"""Dead ends: sections of a site whose pages give no items and link only to more of the same."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.scrape.links.seen import SeenSet
from shoal.scrape.links.shape import url_parts

MAX_USELESS_LINKS = 200  # links of one section that are followed without a useful page
MAX_PER_PAGE = 50  # counted links per page: a long list may be the only path to the useful pages
MAX_SECTIONS = 5_000
MAX_FOLDERS = 100  # per host that are tracked separately

_encode = msgspec.json.Encoder().encode
_URL = re.compile(rb'https?://[^"\\]*')


class DeadEnds:
    """Which sections of the sites have been useful to one worker."""

    def __init__(self) -> None:
        self._useless_links: OrderedDict[str, int] = OrderedDict()
        self._folders: OrderedDict[str, set[str]] = OrderedDict()
        self._productive_hosts: OrderedDict[str, None] = OrderedDict()
        self._items = SeenSet()

    def section_of(self, url: str) -> str:
        """Return the section of a URL; all folders after the first MAX_FOLDERS share one."""
        address = url_parts(url)
        folders = self._folders.setdefault(address.host, set())
        _bound(self._folders)
        if address.section in folders or len(folders) < MAX_FOLDERS:
            folders.add(address.section)
            return address.section
        return f"{address.host}/*/"

    def has_new_items(self, section: str, items: Iterable[Any]) -> bool:
        """Tell whether a page gave a new item, ignoring the URLs in it, and remember that."""
        new = sum(self._items.add(_URL.sub(b"", _encode(item))) for item in items)
        if not new:
            return False
        self.mark_productive(_host(section))
        self.mark_useful(section)
        return True

    def mark_productive(self, host: str) -> None:
        """Record that a page of a host gave an item."""
        self._productive_hosts[host] = None
        _bound(self._productive_hosts)

    def mark_useful(self, section: str) -> None:
        """Record that a page of a section gave an item, or a link to another section or for another step."""
        self._useless_links.pop(section, None)

    def is_closed(self, section: str) -> bool:
        """Tell whether links from useless pages to their own section are no longer followed."""
        # That a page gives no item means something only on a host where others do.
        if self._useless_links.get(section, 0) < MAX_USELESS_LINKS:
            return False
        return _host(section) in self._productive_hosts

    def charge(self, section: str, links: int) -> None:
        """Count the new links of a useless page to its own section."""
        self._useless_links[section] = self._useless_links.get(section, 0) + min(links, MAX_PER_PAGE)
        self._useless_links.move_to_end(section)
        _bound(self._useless_links)


def _host(section: str) -> str:
    return section.partition("/")[0]


def _bound(table: OrderedDict[str, Any]) -> None:
    if len(table) > MAX_SECTIONS:
        table.popitem(last=False)

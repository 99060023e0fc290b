"""Mazes: sections whose pages lead only to pages that no other page links to.

The pages of a site that people made link to each other: a page is found on several others. A program that
makes up links has new ones for ever, and hardly ever the same one twice. Items tell nothing: many pages of an
ordinary site give none, or the same one.
"""

from collections import OrderedDict

from shoal.scrape.links.shape import UrlParts

WINDOW = 2_000  # links to new pages that are judged together
MIN_PAGES = 20  # that they are on: one long list proves nothing
MIN_BRANCHING = 0.95  # share of pages with at least two new links; an ordinary section ends somewhere
MAX_CROSS_LINKS = 0.005  # share of found pages that a second page links to
MAX_SECTIONS = 500
MAX_FOLDERS = 100  # per host that are tracked separately


class SectionLinks:
    """The links from pages of one section to others of it, as one worker finds them."""

    __slots__ = ("_before", "_branching", "_cross_links", "_found", "_pages", "is_suspect")

    def __init__(self) -> None:
        self.is_suspect = False
        self._before: dict[int, int] = {}  # hashes of the pages found in the last window, with their depth
        self._start_window()

    def add_known(self, target: int, depth: int) -> None:
        """Record a link to a page that was found before, on a page of this depth."""
        for found in (self._found, self._before):
            # A link up to where the page was found is part of any maze: it tells nothing.
            if found.get(target, -1) >= depth:
                found[target] = -1  # count it once
                self._cross_links += 1

    def add_page(self, found: dict[int, int]) -> None:
        """Record a page and the links to new pages of its section, with their depth."""
        self._pages += 1
        self._branching += len(found) > 1
        self._found |= found
        if len(self._found) >= WINDOW and self._pages >= MIN_PAGES:
            self.is_suspect = (
                self._branching >= MIN_BRANCHING * self._pages
                and self._cross_links <= MAX_CROSS_LINKS * len(self._found)
            )
            self._before = self._found
            self._start_window()

    def _start_window(self) -> None:
        self._found: dict[int, int] = {}
        self._pages = self._branching = self._cross_links = 0


class Mazes:
    """Which sections of the sites look like mazes to one worker; those used least recently are forgotten."""

    def __init__(self) -> None:
        self._sections: OrderedDict[tuple[str, str], SectionLinks] = OrderedDict()
        self._folders: OrderedDict[str, set[str]] = OrderedDict()

    def section_of(self, address: UrlParts) -> str:
        """Return the section of a URL; all folders of a host after the first MAX_FOLDERS share one."""
        folders = self._folders.setdefault(address.host, set())
        if len(self._folders) > MAX_SECTIONS:
            self._folders.popitem(last=False)
        section = address.section
        if section in folders or len(folders) < MAX_FOLDERS:
            folders.add(section)
            return section
        return f"{address.host}/*/"

    def links_of(self, step: str, section: str) -> SectionLinks:
        """Return the links of a section between pages of one step."""
        links = self._sections.get((step, section))
        if links is None:
            links = self._sections[step, section] = SectionLinks()
            if len(self._sections) > MAX_SECTIONS:
                self._sections.popitem(last=False)
        else:
            self._sections.move_to_end((step, section))
        return links

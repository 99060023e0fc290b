"""Mazes: sections whose pages lead only to pages that no other page links to, without end.

A section is judged by the pages that were visited, not by the links that were found: a shop of a thousand
categories has a hundred thousand new links before its first product is visited. In a section that looks
like a maze, some links are visited before all others, so that the products are seen early; a maze has none.

Items tell nothing: many pages of an ordinary site give none, or the same one.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import count
from random import Random

from msgspec.structs import replace

from shoal.core.model import HIGHEST_PRIORITY, Task
from shoal.scrape.links.shape import UrlParts

WINDOW = 100  # visited pages that are judged together
MIN_BRANCHING = 0.95  # share of pages with at least two new links; an ordinary section ends somewhere
MAX_CROSS_LINKS = 0.005  # share of found pages that a second page links to
PAGES_PER_SAMPLE = 4  # of a suspect section of which one has a link that is visited early
MAX_SECTIONS = 500
MAX_FOLDERS = 100  # per host that are tracked separately

Section = tuple[str, str]  # a step and a part of a site


class SectionVisits:
    """The visited pages of one section and step, as one worker sees them."""

    __slots__ = (
        "_branching", "_cross_links", "_found", "_has_priorities", "_pages", "_priority", "_until_sample",
        "is_sampled", "is_suspect", "number",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number  # unique within the worker
        self.is_suspect = False
        self.is_sampled = False  # from the first suspicion on: it keeps leaves among the visited pages
        self._priority = HIGHEST_PRIORITY  # of its pages that are not sampled: the lowest seen
        self._has_priorities = False  # of the user's own: then no sample can be told from other pages
        self._until_sample = 1
        self._start_window()

    def add_cross_link(self) -> None:
        """Record a link to a page of this section that was found on another page."""
        self._cross_links += 1

    def add_page(self, page: Task, found: int) -> None:
        """Record a visited page and how many new pages of its section it leads to."""
        self._pages += 1
        self._branching += found > 1
        self._found += found
        self._priority = min(self._priority, page.priority)
        if self._pages >= WINDOW:
            self.is_suspect = (
                not self._has_priorities
                and self._priority < HIGHEST_PRIORITY
                and self._branching >= MIN_BRANCHING * self._pages
                and self._cross_links <= MAX_CROSS_LINKS * self._found
            )
            self.is_sampled |= self.is_suspect
            self._start_window()

    def note_priorities(self, page: Task, tasks: Iterable[Task]) -> None:
        """Record whether the links of a page, before one is sampled, have priorities that a step has set."""
        if any(task.priority != page.priority for task in tasks):
            self._has_priorities, self.is_suspect = True, False

    def is_sample(self, page: Task) -> bool:
        """Tell whether a page was visited early."""
        return self.is_sampled and page.priority == self._priority + 1

    def sample(self, page: Task, tasks: list[Task], new: list[int], chance: Random) -> None:
        """Let one of the new links of some pages be visited before all others of its section.

        A page that was visited early itself always has one: the samples lead on until a page ends them.
        """
        raised = self._priority + 1
        is_sample = page.priority == raised
        if is_sample:
            for index, task in enumerate(tasks):
                if task.priority == raised:  # as inherited
                    tasks[index] = replace(task, priority=self._priority)
        self._until_sample -= not is_sample
        if new and raised <= HIGHEST_PRIORITY and (is_sample or self._until_sample <= 0):
            self._until_sample = self._until_sample if is_sample else PAGES_PER_SAMPLE
            index = chance.choice(new)
            tasks[index] = replace(tasks[index], priority=max(tasks[index].priority, raised))

    def _start_window(self) -> None:
        self._pages = self._branching = self._cross_links = self._found = 0


class Mazes:
    """The visited sections of one worker, and which are mazes; those used least recently are forgotten."""

    def __init__(self) -> None:
        self._sections: OrderedDict[Section, SectionVisits] = OrderedDict()
        self._folders: OrderedDict[str, set[str]] = OrderedDict()
        self._numbers = count(1)

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

    def visits_of(self, section: Section) -> SectionVisits:
        """Return the visits of a section by pages of one step."""
        visits = self._sections.get(section)
        if visits is None:
            visits = self._sections[section] = SectionVisits(next(self._numbers))
            if len(self._sections) > MAX_SECTIONS:
                self._sections.popitem(last=False)
        else:
            self._sections.move_to_end(section)
        return visits

"""Filter follow-up tasks: keep those in scope, not too deep, and not in a spider trap."""

from collections import defaultdict
from collections.abc import Iterable
from threading import Lock

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidTask, InvalidUrl
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.redact import bare_url
from shoal.core.secrets import secret_headers
from shoal.core.urls import canonical
from shoal.scrape.links.traps import MIN_NEW, TrapRules
from shoal.scrape.links.url_parts import PagedList, has_one_next, paging_depth, strip_session
from shoal.scrape.settings.scraper import ScraperSettings

OUT_OF_SCOPE, TOO_DEEP = "out of scope", "too deep"
SKIPPED = "excluded by the setting skip"
UNENCRYPTED = "secret headers would go unencrypted"
SECRETS_ELSEWHERE = "secret headers would go to a host out of scope"
TRAP, OTHER_TRAPS = "trap: ", "trap: others"
MAX_REPORTED = 20  # traps that are reported by name
MIN_REMEMBERED = 100_000  # links

Dropped = defaultdict[str, int]  # skipped links by reason; not a Counter, which is slower to create


class SeenLinks:
    """Remembers at least the last MIN_REMEMBERED links by their hashes, and at most twice as many."""

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: dict[int, int] = {}  # with the depth of the page; -1 once several pages link to it
        self._before: dict[int, int] = {}

    def add(self, link: int, depth: int = -1) -> None:
        """Remember a link."""
        if link not in self._now:
            self._now[link] = self._before.get(link, depth)
            if len(self._now) >= MIN_REMEMBERED:
                self._now, self._before = {}, self._now

    def __contains__(self, link: int) -> bool:
        return link in self._now or link in self._before

    def take_cross_link(self, link: int, depth: int) -> bool:
        """Tell, once, whether a link of a page of this depth was found on another page.

        A link up to where the page was found is part of any maze: it tells nothing.
        """
        links = self._now if link in self._now else self._before
        if links.get(link, -1) < depth:
            return False
        links[link] = -1
        return True


class PageLinks(msgspec.Struct):
    """The links of one page while they are filtered."""

    parent: Task
    dropped: Dropped
    itself: int  # the hash of its step and URL, as those of the links
    has_one_next: bool  # whether all links to its own step lead to one page
    pages: PagedList | None = None  # that it is one of; None until it matters
    may_page: bool | None = None  # whether the next page adds no depth; None until it matters
    fresh: dict[int, int] = msgspec.field(default_factory=dict)  # new links, with their depth
    new: int = 0  # pages that a maze would lead to, up to MIN_NEW
    cross_links: int = 0


class LinkFilter:
    """The rules of one scraper for the tasks that its steps yield. Safe to use from several threads."""

    def __init__(self, settings: ScraperSettings) -> None:
        self._settings = settings
        self._has_secrets = bool(secret_headers(settings.headers))
        self._seen, self._traps = SeenLinks(), TrapRules(settings.max_per_pattern)
        self._reported: set[str] = set()
        self.examples: dict[str, str] = {}  # one skipped link per reason
        self._has_followed = False  # until the first link, there is nothing to filter
        self._lock = Lock()

    def change_settings(self, settings: ScraperSettings) -> None:
        """Use the depth and the scope of other settings from now on."""
        with self._lock:
            self._settings = settings

    def filter(self, tasks: Iterable[Task], parent: Task, dropped: Dropped) -> list[Task]:
        """Return the follow-up tasks of a page that pass, and count the others by reason."""
        candidates = [(inherit(task, parent), is_link(task)) for task in tasks]
        self._has_followed = self._has_followed or bool(candidates)
        if not self._has_followed:
            return []
        with self._lock:
            one_next = has_one_next((task for task, _ in candidates), parent)
            page = PageLinks(parent, dropped, hash((parent.step, parent.url)), one_next)
            self._seen.add(page.itself)
            checked = [self._check(task, linked, page) for task, linked in candidates]
            for link, depth in page.fresh.items():
                self._seen.add(link, depth)
            if not _is_post(parent):
                self._traps.count_page(parent, page.new, page.cross_links)
            return [task for task in checked if task is not None]

    def unshared(self) -> dict[str, int]:
        """Return the pages of each trap that this worker has fetched and the others should know of."""
        with self._lock:
            return self._traps.counts.unshared()

    def set_shared(self, trap: str, pages: int, total: int) -> None:
        """Record that the others know of these pages, which makes this total of the fleet."""
        with self._lock:
            self._traps.counts.set_shared(trap, pages, total)

    def find_trap(self, task: Task) -> str | None:
        """Return why a queued task is not fetched any more; None if it is."""
        if not self._traps.counts.closed or task.url is None or task.depth == 0 or _is_post(task):
            return None
        with self._lock:
            trap = self._traps.find(task.url)
            if trap is None:
                return None
            reason = self._report_name(trap)
            self.examples.setdefault(reason, bare_url(task.url))
            return reason

    def _check(self, task: Task, linked: bool, page: PageLinks) -> Task | None:
        if task.url is None:
            return self._check_depth(task, page)
        url = self._secure_url(task, task.url, page.parent)
        if url is None:
            self._skip(UNENCRYPTED, task.url, page)
            return None
        if (linked or self._has_secrets) and not self._settings.scope.allows(url, origin=page.parent.url):
            self._skip(OUT_OF_SCOPE if linked else SECRETS_ELSEWHERE, task.url, page)
            return None
        if self._settings.skip and self._settings.skip.allows(url, origin=None):
            self._skip(SKIPPED, task.url, page)
            return None
        task = task if url == task.url else replace(task, url=url)
        if _is_post(task):
            # A site cannot make a step send a POST, so a POST cannot be part of a trap.
            return self._check_depth(task, page)
        # The hash of a text is different in every process, so a site cannot cause collisions.
        link = hash((task.step, url))
        if self._is_known(link, page):
            return task  # however deep it is here: it is queued already
        return self._check_new(task, url, link, page)

    def _is_known(self, link: int, page: PageLinks) -> bool:
        if link in page.fresh:
            return True
        if link not in self._seen:
            return False
        if link != page.itself and self._seen.take_cross_link(link, page.parent.depth):
            page.cross_links += 1
        return True

    def _check_new(self, task: Task, url: str, link: int, page: PageLinks) -> Task | None:
        bare = strip_session(url)
        if bare != url:
            task, link = replace(task, url=bare), hash((task.step, bare))
            if self._is_known(link, page):
                return task
        deep = self._check_depth(task, page)
        if deep is None:
            return None
        if trap := self._traps.follow(bare):
            self._skip(self._report_name(trap), bare, page)
            return None
        page.fresh[link] = deep.depth
        parent = page.parent
        if page.new < MIN_NEW and task.step == parent.step and parent.url:
            page.new += self._traps.is_part_of_maze(bare, parent.url)
        return deep

    def _check_depth(self, task: Task, page: PageLinks) -> Task | None:
        """Return a task with its depth, or None if that is too deep."""
        if self._is_paging(task, page):
            if page.may_page is None:
                page.may_page = self._traps.may_page(page.parent)
            depth = paging_depth(page.parent)
            if page.may_page and task.depth != depth:
                task = replace(task, depth=depth)
        if task.depth <= self._settings.max_depth:
            return task
        self._skip(TOO_DEEP, task.url, page)
        return None

    def _is_paging(self, task: Task, page: PageLinks) -> bool:
        if task.step != page.parent.step:
            return False
        if page.has_one_next or task.url is None or page.parent.url is None:
            return page.has_one_next
        if page.pages is None:
            page.pages = PagedList.of(page.parent.url)
        return page.pages.contains(task.url)

    def _secure_url(self, task: Task, url: str, parent: Task) -> str | None:
        """Return the URL of a task; with secret headers it stays on https, or is None if it cannot."""
        secure = self._settings.scope.secure_url(url, origin=parent.url)
        own = task.request.headers if task.request else {}
        has_secrets = secure != url and secret_headers({**self._settings.headers_for(url), **own})
        return secure if has_secrets else url

    def _skip(self, reason: str, url: str | None, page: PageLinks) -> None:
        page.dropped[reason] += 1
        if url is not None and reason not in self.examples:
            self.examples[reason] = bare_url(url)

    def _report_name(self, trap: str) -> str:
        """Return the name under which a trap is reported; all after the first few share one."""
        if trap not in self._reported and len(self._reported) >= MAX_REPORTED:
            return OTHER_TRAPS
        self._reported.add(trap)
        return TRAP + trap


def _is_post(task: Task) -> bool:
    return task.request is not None and task.request.post is not None


def is_link(task: Task) -> bool:
    """Tell whether a follow-up task was made by `page.follow`, which gives it a depth.

    A task that the user's code creates itself may use any host: the scope applies to links only.
    """
    return task.depth > 0


def inherit(task: Task, parent: Task) -> Task:
    """Return a follow-up task with depth, partition and priority inherited from its parent.

    A task made by `page.follow` already has them.
    """
    if is_link(task):
        return task
    return replace(
        task,
        url=_canonical(task),
        depth=parent.depth + 1,
        partition=task.partition or parent.partition,
        priority=parent.priority if task.priority == LOWEST_PRIORITY else task.priority,
    )


def _canonical(task: Task) -> str | None:
    try:
        return None if task.url is None else canonical(task.url)
    except InvalidUrl as error:
        raise InvalidTask(task, str(error)) from error

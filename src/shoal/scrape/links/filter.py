"""Filter follow-up tasks: keep those in scope, not too deep, and not in a spider trap."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from random import Random
from threading import Lock

from msgspec.structs import replace

from shoal.core.errors import InvalidTask, InvalidUrl
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.redact import bare_url
from shoal.core.secrets import secret_headers
from shoal.core.urls import canonical
from shoal.scrape.harvest import Dropped
from shoal.scrape.links.budgets import ShapeBudgets
from shoal.scrape.links.mazes import Mazes, Section, SectionVisits
from shoal.scrape.links.paging import NO_CHAIN, Chain, PagedList, checksum, name_of, paging_depth, read_chain
from shoal.scrape.links.seen import SeenLinks
from shoal.scrape.links.shape import UrlParts, url_parts
from shoal.scrape.links.traps import strip_session
from shoal.scrape.settings.scraper import ScraperSettings

OUT_OF_SCOPE, TOO_DEEP = "out of scope", "too deep"
MIN_MAZE_DEPTH = 10  # from which links that are too deep count as pages of a maze
SKIPPED = "setting skip"
UNENCRYPTED = "secret headers would go unencrypted"
SECRETS_ELSEWHERE = "secret headers would go to a host out of scope"
MAX_REPORTED = 20  # traps that are reported by name
OTHER_TRAPS = "trap: others"

Today = Callable[[], date]


@dataclass(slots=True)
class PageLinks:
    """The links of one page while they are filtered."""

    parent: Task
    dropped: Dropped
    chain: Chain = NO_CHAIN
    pages: PagedList | None = None  # that it is one of; None until it matters
    itself: int = 0  # the hash of its step and URL, as those of the links
    section: Section | None = None  # None if it has no URL, or if mazes are not looked for
    visits: SectionVisits | None = None
    fresh: set[int] = field(default_factory=set)  # new links
    within: dict[int, int] = field(
        default_factory=dict
    )  # those to its own section and step, with their depth
    too_deep: int = 0  # new links to its own section and step that are not followed


class LinkFilter:
    """The rules of one scraper for the tasks that its steps yield. Safe to use from several threads."""

    def __init__(self, settings: ScraperSettings, *, today: Today = date.today) -> None:
        self._settings, self._today = settings, today
        self._has_secrets = bool(secret_headers(settings.headers))
        self._now = today()
        self._seen, self._too_deep = SeenLinks(), SeenLinks()
        self._budgets = ShapeBudgets(settings.max_per_pattern)
        self._mazes = Mazes() if settings.max_per_pattern is None else None
        self._condemned: dict[Section, str] = {}  # sections that are mazes, with their names in reports
        self._chance = Random()
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
            self._now = self._today()
            page = self._start(parent, dropped)
            page.chain = read_chain((task for task, _ in candidates), parent)
            checked = [self._check(task, linked, page) for task, linked in candidates]
            passed = [task for task in checked if task is not None]
            if page.chain.is_possible:
                passed = _name_parent(passed, parent)
            self._finish(page, passed)
            return passed

    def _start(self, parent: Task, dropped: Dropped) -> PageLinks:
        if parent.url is None:
            return PageLinks(parent, dropped)
        itself = hash((parent.step, parent.url))
        self._seen.add(itself)
        if self._mazes is None:
            return PageLinks(parent, dropped, itself=itself)
        section = (parent.step, self._mazes.section_of(url_parts(parent.url)))
        return PageLinks(
            parent, dropped, itself=itself, section=section, visits=self._mazes.visits_of(section)
        )

    def _finish(self, page: PageLinks, passed: list[Task]) -> None:
        """Remember the new links of a page, and judge its section by it."""
        visits = page.visits
        for link in page.fresh:
            if visits and link in page.within:
                self._seen.add(link, visits.number, page.within[link])
            else:
                self._seen.add(link)
        if visits is None or page.section is None:
            return
        visits.note_priorities(page.parent, passed)
        visits.add_page(page.parent, len(page.within) + page.too_deep)
        if visits.is_suspect and self._budgets.spend_on_maze(
            page.section, page.parent, is_sample=visits.is_sample(page.parent)
        ):
            self._condemn(page.section)
        if visits.is_sampled:
            new = [index for index, task in enumerate(passed) if hash((task.step, task.url)) in page.within]
            visits.sample(page.parent, passed, new, self._chance)

    def set_shared_key(self, key: bytes) -> None:
        """Set the key shared by the link filters of a run, so that their counts can be merged."""
        with self._lock:
            self._budgets.set_shared_key(key)

    @property
    def is_urgent(self) -> bool:
        """Whether other workers should get some counts at once."""
        with self._lock:
            return self._budgets.is_urgent

    def unshared(self, limit: int) -> list[str]:
        """Return up to `limit` link shapes whose counts other workers do not have yet."""
        with self._lock:
            return self._budgets.unshared(limit)

    def exchange(self, shared: Mapping[str, bytes | None]) -> dict[str, bytes]:
        """Merge the shared counts of these link shapes, and return those to write back."""
        with self._lock:
            return self._budgets.exchange(shared)

    @property
    def mazes(self) -> set[Section]:
        """The sections that are mazes: none of their pages is visited any more."""
        return set(self._condemned)

    def add_mazes(self, sections: Iterable[Section]) -> None:
        """Take over what other workers found to be mazes."""
        with self._lock:
            for section in sections:
                self._condemn(section)

    def find_maze(self, task: Task) -> str | None:
        """Return why a queued task need not be visited any more; None if it is not in a maze."""
        if not self._condemned or task.url is None or task.depth == 0 or _is_post(task):
            return None
        with self._lock:
            trap = self._maze_of(task, url_parts(task.url))
            if trap is None:
                return None
            reason = self._report_name(trap)
            self.examples.setdefault(reason, bare_url(task.url))
            return reason

    def _condemn(self, section: Section) -> None:
        step, name = section
        self._condemned[section] = f"{name} (maze of step {step})"

    def _maze_of(self, task: Task, address: UrlParts) -> str | None:
        if not self._condemned or self._mazes is None:
            return None
        return self._condemned.get((task.step, self._mazes.section_of(address)))

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
        link = hash(
            (task.step, url)
        )  # of text: different in every process, so a site cannot cause collisions
        if link in self._seen or link in page.fresh:
            return self._pass_known(task, link, page)
        return self._check_new(task, url, link, page)

    def _pass_known(self, task: Task, link: int, page: PageLinks) -> Task:
        # Passed however deep it is here: it is queued already.
        visits = page.visits
        if (
            visits
            and link != page.itself
            and link not in page.fresh
            and self._seen.take_cross_link(link, visits.number, page.parent.depth)
        ):
            visits.add_cross_link()
        return task

    def _check_depth(self, task: Task, page: PageLinks) -> Task | None:
        """Return a task with its depth, or None if that is too deep."""
        if self._is_paging(task, page):
            section = page.section[1] if page.section else page.parent.step
            if self._budgets.spend_on_paging(section, name_of(task)):
                depth = paging_depth(page.parent)
                task = task if task.depth == depth else replace(task, depth=depth)
        if task.depth <= self._settings.max_depth:
            return task
        self._skip(TOO_DEEP, task.url, page)
        return None

    def _is_paging(self, task: Task, page: PageLinks) -> bool:
        if task.step != page.parent.step:
            return False
        if page.chain.is_certain or task.url is None or page.parent.url is None:
            return page.chain.is_certain
        if page.pages is None:
            page.pages = PagedList.of(page.parent.url)
        return page.pages.contains(task.url)

    def _secure_url(self, task: Task, url: str, parent: Task) -> str | None:
        """Return the URL of a task; with secret headers it stays on https, or is None if it cannot."""
        if self._has_secrets or (task.request and secret_headers(task.request.headers)):
            return self._settings.scope.secure_url(url, origin=parent.url)
        return url

    def _check_new(self, task: Task, url: str, link: int, page: PageLinks) -> Task | None:
        bare = strip_session(url)
        if bare != url:
            task, link = replace(task, url=bare), hash((task.step, bare))
            if link in self._seen or link in page.fresh:
                return self._pass_known(task, link, page)
        deep = self._check_depth(task, page)
        address = url_parts(bare)
        if deep is None:
            self._count_too_deep(task, address, link, page)
            return None
        trap = self._maze_of(task, address) or self._budgets.spend(bare, address, self._now)
        if trap is not None:
            self._skip(self._report_name(trap), bare, page)
            return None
        page.fresh.add(link)
        if self._is_within(task, address, page):
            page.within[link] = deep.depth
        return deep

    def _count_too_deep(self, task: Task, address: UrlParts, link: int, page: PageLinks) -> None:
        # Not followed, but found: a maze that is read depth first has most of its pages where no link passes.
        # Not so near the start, where the limit is the user's: all pages of a flat site may lead deeper.
        if page.visits and page.parent.depth >= MIN_MAZE_DEPTH and self._is_within(task, address, page):
            if self._too_deep.add(link):
                page.too_deep += 1
            else:
                page.visits.add_cross_link()

    def _is_within(self, task: Task, address: UrlParts, page: PageLinks) -> bool:
        """Tell whether a link leads to the step and the section of its page."""
        return (
            self._mazes is not None
            and page.section is not None
            and task.step == page.parent.step
            and self._mazes.section_of(address) == page.section[1]
        )

    def _skip(self, reason: str, url: str | None, page: PageLinks) -> None:
        page.dropped[reason] += 1
        if url is not None and reason not in self.examples:
            self.examples[reason] = bare_url(url)

    def _report_name(self, trap: str) -> str:
        """Return the name under which a trap is reported; all after the first few share one."""
        if trap not in self._reported and len(self._reported) >= MAX_REPORTED:
            return OTHER_TRAPS
        self._reported.add(trap)
        return f"trap: {trap}"


def _name_parent(tasks: list[Task], parent: Task) -> list[Task]:
    """Return the follow-up tasks, those of the page's own step with the page that they were found on."""
    found_on = checksum(parent)
    return [replace(task, found_on=found_on) if task.step == parent.step else task for task in tasks]


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

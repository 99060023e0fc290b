"""Filter follow-up tasks: keep those in scope, not too deep, and not in a spider trap."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from threading import Lock

from shoal.core.errors import InvalidTask, InvalidUrl
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.redact import bare_url
from shoal.core.secrets import secret_headers
from shoal.core.urls import canonical
from shoal.scrape.harvest import Dropped
from shoal.scrape.links.budgets import ShapeBudgets
from shoal.scrape.links.mazes import Mazes, SectionLinks
from shoal.scrape.links.paging import is_paging, name_of, paging_depth
from shoal.scrape.links.seen import SeenSet
from shoal.scrape.links.shape import UrlParts, url_parts
from shoal.scrape.links.traps import strip_session
from shoal.scrape.settings.scraper import ScraperSettings

OUT_OF_SCOPE, TOO_DEEP = "out of scope", "too deep"
SKIPPED = "setting skip"
UNENCRYPTED = "secret headers would go unencrypted"
SECRETS_ELSEWHERE = "secret headers would go to a host out of scope"
MAX_REPORTED = 20  # traps that are reported by name
OTHER_TRAPS = "trap: others"

Today = Callable[[], date]
Target = tuple[str, str]  # a step and a URL


@dataclass(slots=True)
class PageLinks:
    """The links of one page while they are filtered."""

    parent: Task
    dropped: Dropped
    section: str | None  # of the page; None if it has no URL, or if mazes are not looked for
    links: SectionLinks | None
    fresh: set[Target] = field(default_factory=set)
    # New ones to its own section and step, with their depth.
    within: dict[int, int] = field(default_factory=dict)


class LinkFilter:
    """The rules of one scraper for the tasks that its steps yield. Safe to use from several threads."""

    def __init__(self, settings: ScraperSettings, *, today: Today = date.today) -> None:
        self._settings, self._today = settings, today
        self._has_secrets = bool(secret_headers(settings.headers))
        self._now = today()
        self._seen = SeenSet()
        self._budgets = ShapeBudgets(settings.max_per_pattern)
        self._mazes = Mazes() if settings.max_per_pattern is None else None
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
            self._seen.add((parent.step, parent.url))
            page = self._start(parent, dropped)
            is_chain = is_paging((task for task, _ in candidates), parent)
            passed = []
            for one, linked in candidates:
                paged = is_chain and one.step == parent.step
                task = self._check(one, linked, paged, page)
                if task is not None:
                    passed.append(task)
            if page.links and TOO_DEEP not in dropped:  # else its links may well be new, and are not counted
                page.links.add_page(page.within)
            for target in page.fresh:
                self._seen.add(target)
            return passed

    def _start(self, parent: Task, dropped: Dropped) -> PageLinks:
        if self._mazes is None or parent.url is None:
            return PageLinks(parent, dropped, None, None)
        section = self._mazes.section_of(url_parts(parent.url))
        return PageLinks(parent, dropped, section, self._mazes.links_of(parent.step, section))

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

    def _check(self, task: Task, linked: bool, paged: bool, page: PageLinks) -> Task | None:
        if task.url is None:
            return self._check_depth(task, paged, page)
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
        if task.request and task.request.post is not None:
            # A site cannot make a step send a POST, so a POST cannot be part of a trap.
            return self._check_depth(task, paged, page)
        target = (task.step, url)
        if target in self._seen or target in page.fresh:
            return self._pass_known(task, target, page)
        return self._check_new(task, url, paged, page)

    def _pass_known(self, task: Task, target: Target, page: PageLinks) -> Task:
        # Passed however deep it is here: it is queued already.
        if page.links and task.step == page.parent.step and target not in page.fresh:
            page.links.add_known(hash(target), page.parent.depth)
        return task

    def _check_depth(self, task: Task, paged: bool, page: PageLinks) -> Task | None:
        """Return a task with its depth, or None if that is too deep."""
        if paged and self._budgets.spend_on_paging(page.section or page.parent.step, name_of(task)):
            depth = paging_depth(page.parent)
            task = task if task.depth == depth else replace(task, depth=depth)
        if task.depth <= self._settings.max_depth:
            return task
        self._skip(TOO_DEEP, task.url, page)
        return None

    def _secure_url(self, task: Task, url: str, parent: Task) -> str | None:
        """Return the URL of a task; with secret headers it stays on https, or is None if it cannot."""
        if self._has_secrets or (task.request and secret_headers(task.request.headers)):
            return self._settings.scope.secure_url(url, origin=parent.url)
        return url

    def _check_new(self, task: Task, url: str, paged: bool, page: PageLinks) -> Task | None:
        bare = strip_session(url)
        target = (task.step, bare)
        task = task if bare == url else replace(task, url=bare)
        if bare != url and (target in self._seen or target in page.fresh):
            return self._pass_known(task, target, page)
        deep = self._check_depth(task, paged, page)
        if deep is None:
            return None
        address = url_parts(bare)
        trap = self._find_trap(task, address, page)
        if trap is not None:
            self._skip(self._report_name(trap), bare, page)
            return None
        page.fresh.add(target)
        if self._is_within(task, address, page):
            page.within[hash(target)] = deep.depth
        return deep

    def _is_within(self, task: Task, address: UrlParts, page: PageLinks) -> bool:
        """Tell whether a link leads to the step and the section of its page."""
        return (
            self._mazes is not None
            and task.step == page.parent.step
            and self._mazes.section_of(address) == page.section
        )

    def _find_trap(self, task: Task, address: UrlParts, page: PageLinks) -> str | None:
        trap = self._budgets.spend(task.url or "", address, self._now)
        if trap or not page.links or not page.links.is_suspect or task.step != page.parent.step:
            return trap
        # Wherever it leads: two sections of made-up pages may link to each other.
        return self._budgets.spend_on_maze(page.section or "", address)

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

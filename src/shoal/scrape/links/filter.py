"""Filter follow-up tasks: keep those in scope, not too deep, and not in a spider trap."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from threading import Lock
from typing import Any

from shoal.core.errors import InvalidTask, InvalidUrl
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.redact import bare_url
from shoal.core.secrets import secret_headers
from shoal.core.urls import canonical
from shoal.scrape.harvest import Dropped
from shoal.scrape.links.budgets import ShapeBudgets
from shoal.scrape.links.dead_ends import DeadEnds
from shoal.scrape.links.seen import SeenSet
from shoal.scrape.links.shape import url_parts
from shoal.scrape.links.traps import find_endless, strip_session
from shoal.scrape.settings.scraper import ScraperSettings

OUT_OF_SCOPE, TOO_DEEP = "out of scope", "too deep"
SKIPPED = "setting skip"
UNENCRYPTED = "secret headers would go unencrypted"
SECRETS_ELSEWHERE = "secret headers would go to a host out of scope"
MAX_REPORTED = 20  # traps that are reported by name
OTHER_TRAPS = "trap: others"

Today = Callable[[], date]
Target = tuple[str, str]  # a step and a URL


class LinkFilter:
    """The rules of one scraper for the tasks that its steps yield. Safe to use from several threads."""

    def __init__(self, settings: ScraperSettings, *, today: Today = date.today) -> None:
        self._settings, self._today = settings, today
        self._has_secrets = bool(secret_headers(settings.headers))
        self._now = today()
        self._seen = SeenSet()
        self._budgets = ShapeBudgets(settings.max_per_pattern)
        self._dead_ends = DeadEnds() if settings.max_per_pattern is None else None
        self._reported: set[str] = set()
        self.examples: dict[str, str] = {}  # one skipped link per reason
        self._has_followed = False  # until the first link, no dead end is possible
        self._lock = Lock()

    def change_settings(self, settings: ScraperSettings) -> None:
        """Use the depth and the scope of other settings from now on."""
        with self._lock:
            self._settings = settings

    def filter(self, tasks: Iterable[Task], parent: Task, items: list[Any], dropped: Dropped) -> list[Task]:
        """Return the follow-up tasks of a page that pass, and count the others by reason."""
        candidates = [(inherit(task, parent), is_link(task)) for task in tasks]
        self._has_followed = self._has_followed or bool(candidates)
        with self._lock:
            if not self._has_followed:
                return self._skip_all(parent, items)
            self._now = self._today()
            self._seen.add((parent.step, parent.url))
            fresh: dict[Target, None] = {}
            passed = [
                task
                for one, linked in candidates
                if (task := self._check(one, linked, parent, fresh, dropped)) is not None
            ]
            if self._is_dead_end(list(fresh), parent, items, dropped):
                return [task for task in passed if (task.step, task.url) not in fresh]
            for target in fresh:
                self._seen.add(target)
            return passed

    def set_shared_key(self, key: bytes) -> None:
        """Set the key shared by the link filters of a run, so that their counts can be merged."""
        with self._lock:
            self._budgets.set_shared_key(key)

    def unshared(self, limit: int) -> list[str]:
        """Return up to `limit` link shapes whose counts other workers do not have yet."""
        with self._lock:
            return self._budgets.unshared(limit)

    def exchange(self, shared: Mapping[str, bytes | None]) -> dict[str, bytes]:
        """Merge the shared counts of these link shapes, and return those to write back."""
        with self._lock:
            return self._budgets.exchange(shared)

    def _skip_all(self, parent: Task, items: list[Any]) -> list[Task]:
        if items and self._dead_ends and parent.url:
            self._dead_ends.mark_productive(parent.url.split("/", 3)[2])
        return []

    def _check(
        self, task: Task, linked: bool, parent: Task, fresh: dict[Target, None], dropped: Dropped
    ) -> Task | None:
        if task.depth > self._settings.max_depth:
            self._skip(TOO_DEEP, task.url, dropped)
            return None
        if task.url is None:
            return task
        url = self._secure_url(task, task.url, parent)
        if url is None:
            self._skip(UNENCRYPTED, task.url, dropped)
            return None
        if (linked or self._has_secrets) and not self._settings.scope.allows(url, origin=parent.url):
            self._skip(OUT_OF_SCOPE if linked else SECRETS_ELSEWHERE, task.url, dropped)
            return None
        if self._settings.skip and self._settings.skip.allows(url, origin=None):
            self._skip(SKIPPED, task.url, dropped)
            return None
        task = task if url == task.url else replace(task, url=url)
        if task.request and task.request.post is not None:
            return task  # a site cannot make a step send a POST, so a POST cannot be part of a trap
        if (task.step, url) in self._seen or (task.step, url) in fresh:
            return task
        return self._check_traps(task, url, fresh, dropped)

    def _secure_url(self, task: Task, url: str, parent: Task) -> str | None:
        """Return the URL of a task; with secret headers it stays on https, or is None if it cannot."""
        if self._has_secrets or (task.request and secret_headers(task.request.headers)):
            return self._settings.scope.secure_url(url, origin=parent.url)
        return url

    def _check_traps(self, task: Task, url: str, fresh: dict[Target, None], dropped: Dropped) -> Task | None:
        bare = strip_session(url)
        target = (task.step, bare)
        if target not in self._seen and target not in fresh:
            trap = self._find_trap(bare)
            if trap is not None:
                self._skip(self._report_name(trap), bare, dropped)
                return None
            fresh[target] = None
        return task if bare == url else replace(task, url=bare)

    def _find_trap(self, url: str) -> str | None:
        address = url_parts(url)
        reason = find_endless(url, address, self._now)
        return f"{address.section} ({reason})" if reason else self._budgets.spend(address)

    def _is_dead_end(self, fresh: list[Target], parent: Task, items: list[Any], dropped: Dropped) -> bool:
        """Tell whether the new links of a page lead further into a dead end."""
        if self._dead_ends is None or parent.url is None:
            return False
        section = self._dead_ends.section_of(parent.url)
        if self._dead_ends.has_new_items(section, items) or not fresh:
            return False
        if any(step != parent.step or self._dead_ends.section_of(url) != section for step, url in fresh):
            self._dead_ends.mark_useful(section)
            return False
        if not self._dead_ends.is_closed(section):
            self._dead_ends.charge(section, len(fresh))
            return False
        self._skip(self._report_name(f"{section} (nothing new)"), fresh[0][1], dropped, len(fresh))
        return True

    def _skip(self, reason: str, url: str | None, dropped: Dropped, count: int = 1) -> None:
        dropped[reason] += count
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

"""Which follow-up tasks may pass: those in scope, not too deep, and not in a trap."""

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
from shoal.scrape.address import dissect
from shoal.scrape.budgets import Budgets
from shoal.scrape.harvest import Dropped
from shoal.scrape.mazes import Mazes
from shoal.scrape.seen import Seen
from shoal.scrape.settings import ScraperSettings
from shoal.scrape.traps import endless, without_session

OUT_OF_SCOPE, TOO_DEEP = "out of scope", "too deep"
UNENCRYPTED = "secret headers would go unencrypted"
SECRETS_ELSEWHERE = "secret headers would go to a host out of scope"
MAX_NAMES = 20  # traps that are reported by name
OTHER_TRAPS = "trap: others"

Today = Callable[[], date]
Way = tuple[str, str]  # a step and a URL


class Gate:
    """The rules of one scraper for the tasks that its steps yield. Safe to use from several threads."""

    def __init__(self, settings: ScraperSettings, *, today: Today = date.today) -> None:
        self._settings, self._today = settings, today
        self._has_secrets = bool(secret_headers(settings.headers))
        self._now = today()
        self._seen = Seen()
        self._budgets = Budgets(settings.max_per_pattern)
        self._mazes = Mazes() if settings.max_per_pattern is None else None
        self._named: set[str] = set()
        self.examples: dict[str, str] = {}  # a link that was not followed, by reason
        self._is_followed = False  # before the first link there is nothing to get lost in
        self._lock = Lock()

    def admit(self, tasks: Iterable[Task], parent: Task, items: list[Any], dropped: Dropped) -> list[Task]:
        """Return the follow-up tasks of a page that may pass, and count the others by reason."""
        near = [(inherited(task, parent), is_link(task)) for task in tasks]
        self._is_followed = self._is_followed or bool(near)
        with self._lock:
            if not self._is_followed:
                return self._passed_by(parent, items)
            self._now = self._today()
            self._seen.add((parent.step, parent.url))
            fresh: dict[Way, None] = {}
            passed = [
                task
                for one, linked in near
                if (task := self._passed(one, linked, parent, fresh, dropped)) is not None
            ]
            if self._is_lost(list(fresh), parent, items, dropped):
                return [task for task in passed if (task.step, task.url) not in fresh]
            for way in fresh:
                self._seen.add(way)
            return passed

    def share_by(self, key: bytes) -> None:
        """Count links as all gates do that have this key, so that they can be told what was spent."""
        with self._lock:
            self._budgets.share_by(key)

    def worth_telling(self, most: int) -> list[str]:
        """Return so many kinds of links at most that other gates should hear of."""
        with self._lock:
            return self._budgets.worth_telling(most)

    def exchange(self, shared: Mapping[str, bytes | None]) -> dict[str, bytes]:
        """Hear what others have spent on these kinds of links, and return what is news to them."""
        with self._lock:
            return self._budgets.exchange(shared)

    def _passed_by(self, parent: Task, items: list[Any]) -> list[Task]:
        if items and self._mazes and parent.url:
            self._mazes.bears_fruit(parent.url.split("/", 3)[2])
        return []

    def _passed(
        self, task: Task, linked: bool, parent: Task, fresh: dict[Way, None], dropped: Dropped
    ) -> Task | None:
        if task.depth > self._settings.max_depth:
            self._drop(TOO_DEEP, task.url, dropped)
            return None
        if task.url is None:
            return task
        url = self._encrypted(task, task.url, parent)
        if url is None:
            self._drop(UNENCRYPTED, task.url, dropped)
            return None
        if (linked or self._has_secrets) and not self._settings.scope.allows(url, origin=parent.url):
            self._drop(OUT_OF_SCOPE if linked else SECRETS_ELSEWHERE, task.url, dropped)
            return None
        task = task if url == task.url else replace(task, url=url)
        if task.ask and task.ask.post is not None:
            return task  # no site can make a step send something, so it cannot lead one on either
        if (task.step, url) in self._seen or (task.step, url) in fresh:
            return task
        return self._past_traps(task, url, fresh, dropped)

    def _encrypted(self, task: Task, url: str, parent: Task) -> str | None:
        """Return where a task leads; one with secrets stays within https, and gives None where it cannot."""
        if self._has_secrets or (task.ask and secret_headers(task.ask.headers)):
            return self._settings.scope.encrypted(url, origin=parent.url)
        return url

    def _past_traps(self, task: Task, url: str, fresh: dict[Way, None], dropped: Dropped) -> Task | None:
        bare = without_session(url)
        way = (task.step, bare)
        if way not in self._seen and way not in fresh:
            trap = self._trap(bare)
            if trap is not None:
                self._drop(self._name(trap), bare, dropped)
                return None
            fresh[way] = None
        return task if bare == url else replace(task, url=bare)

    def _trap(self, url: str) -> str | None:
        address = dissect(url)
        wrong = endless(url, address, self._now)
        return f"{address.section} ({wrong})" if wrong else self._budgets.spend(address)

    def _is_lost(self, fresh: list[Way], parent: Task, items: list[Any], dropped: Dropped) -> bool:
        """Tell whether the new links of a page lead on into a maze."""
        if self._mazes is None or parent.url is None:
            return False
        part = self._mazes.part_of(parent.url)
        if self._mazes.gives_news(part, items) or not fresh:
            return False
        if any(step != parent.step or self._mazes.part_of(url) != part for step, url in fresh):
            self._mazes.useful(part)
            return False
        if not self._mazes.is_closed(part):
            self._mazes.charge(part, len(fresh))
            return False
        self._drop(self._name(f"{part} (nothing new)"), fresh[0][1], dropped, len(fresh))
        return True

    def _drop(self, reason: str, url: str | None, dropped: Dropped, count: int = 1) -> None:
        dropped[reason] += count
        if url is not None and reason not in self.examples:
            self.examples[reason] = bare_url(url)

    def _name(self, trap: str) -> str:
        """Return the name under which a trap is reported; beyond the first few they share one."""
        if trap not in self._named and len(self._named) >= MAX_NAMES:
            return OTHER_TRAPS
        self._named.add(trap)
        return f"trap: {trap}"


def is_link(task: Task) -> bool:
    """Tell whether a follow-up task was made by `page.follow`, which gives it a depth.

    A task that the user's code made itself may go to any host: only links are kept to the scope.
    """
    return task.depth > 0


def inherited(task: Task, parent: Task) -> Task:
    """Return a follow-up task with what it takes from its parent: one more depth, partition and priority.

    `page.follow` has seen to all of it.
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

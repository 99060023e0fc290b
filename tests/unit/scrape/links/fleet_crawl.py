"""A crawl without HTTP: a queue with priorities, and the link filters of workers that share counts."""

from collections import Counter, defaultdict, deque
from datetime import date

from shoal.core.model import Task
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.settings.scraper import ScraperSettings

HOME = "https://a.test/"
EXCHANGE_INTERVAL = 200  # pages between two exchanges


class FleetCrawl:
    """Visits a site breadth first, as the workers of a run would; `visited` are the URLs in their order."""

    def __init__(
        self, links_of, *, workers=1, has_priorities=True, newest_first=False, priority=None, **settings
    ):
        self.links_of, self.priority_of = links_of, priority
        self.has_priorities, self.newest_first = has_priorities, newest_first
        read = ScraperSettings.read(**settings)
        self.filters = [LinkFilter(read, today=lambda: date(2026, 6, 1)) for _ in range(workers)]
        for one in self.filters:
            one.set_shared_key(b"run")
        self.notes, self.dropped, self.visited = {}, Counter(), []
        self._queue, self._known = defaultdict(deque), set()

    def run(self, limit):
        """Visit pages until none is left or the limit is passed."""
        self._enqueue([Task(url=HOME, step="s")])
        turn = 0
        while (task := self._claim()) and len(self.visited) <= limit:
            turn += 1
            if turn % EXCHANGE_INTERVAL == 0:
                self._exchange()
            self._visit(task, self.filters[turn % len(self.filters)])
        return self

    def _visit(self, task, link_filter):
        if reason := link_filter.find_maze(task):
            self.dropped[reason] += 1
            return
        self.visited.append(task.url)
        links = [
            Task(
                url=url,
                step="s",
                depth=task.depth + 1,
                priority=self.priority_of(url) if self.priority_of else task.priority,
            )
            for url in self.links_of(task.url)
        ]
        dropped = defaultdict(int)
        self._enqueue(link_filter.filter(links, task, dropped))
        self.dropped.update(dropped)

    def _enqueue(self, tasks):
        for task in tasks:
            if task.url not in self._known:
                self._known.add(task.url)
                self._queue[task.priority if self.has_priorities else 0].append(task)

    def _claim(self):
        for priority in sorted(self._queue, reverse=True):
            if queue := self._queue[priority]:
                return queue.pop() if self.newest_first else queue.popleft()
        return None

    def _exchange(self):
        mazes = set().union(*(one.mazes for one in self.filters))
        for one in self.filters:
            kinds = one.unshared(20)
            self.notes |= one.exchange({kind: self.notes.get(kind) for kind in kinds})
            one.add_mazes(mazes)

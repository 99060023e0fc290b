"""A crawl without HTTP: a queue, and the link filters of workers that share counts."""

from collections import Counter, deque

from shoal.core.model import Task
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.settings.scraper import ScraperSettings

HOME = "https://a.test/"
SHARE_INTERVAL = 200  # pages between two exchanges


class FleetCrawl:
    """Visits a site breadth first, as the workers of a run would; `visited` are the URLs in their order."""

    def __init__(self, links_of, *, workers=1, **settings):
        self.links_of = links_of
        self.filters = [LinkFilter(ScraperSettings.read(**settings)) for _ in range(workers)]
        self.totals, self.dropped, self.visited = Counter(), Counter(), []
        self._queue, self._known = deque(), set()

    def run(self, limit):
        """Visit pages until none is left or the limit is passed."""
        self._enqueue([Task(url=HOME, step="s")])
        turn = 0
        while self._queue and len(self.visited) <= limit:
            turn += 1
            if turn % SHARE_INTERVAL == 0:
                self._share()
            self._visit(self._queue.popleft(), self.filters[turn % len(self.filters)])
        return self

    def _visit(self, task, link_filter):
        if reason := link_filter.find_trap(task):
            self.dropped[reason] += 1
            return
        self.visited.append(task.url)
        links = [Task(url=url, step="s", depth=task.depth + 1) for url in self.links_of(task.url)]
        self._enqueue(link_filter.filter(links, task, self.dropped))

    def _enqueue(self, tasks):
        for task in tasks:
            if task.url not in self._known:
                self._known.add(task.url)
                self._queue.append(task)

    def _share(self):
        for one in self.filters:
            for trap, pages in one.unshared().items():
                self.totals[trap] += pages
                one.set_shared(trap, pages, self.totals[trap])

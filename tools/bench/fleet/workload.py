"""What a simulated fleet crawls: hosts of very different sizes, slow pages, failures."""

import random
from collections.abc import Iterator
from datetime import timedelta

from shoal.core.model import SECOND, Bury, Done, Lease, Outcome, Retry, RunSettings, Task

SCRAPER = "fleet"
BUSY, IDLE = "fleet-busy", "fleet-idle"  # run ids
HOST_DELAY = SECOND
SETTINGS = RunSettings(host_delay=HOST_DELAY, per_host=8)
RATE = 0.5  # tasks a second for each worker: there are so many hosts that the delay allows it
LEAST, MEAN = 3, 30  # pages of a host at the start
FOUND = 1  # pages that a page leads to, on its host
MEDIAN_LATENCY, SPREAD = 0.3, 0.8  # seconds until a page is there; of the logarithm
FAILURES, DEATHS = 0.03, 0.002  # shares of the attempts
RETRY_AFTER = 5 * SECOND
LATER = timedelta(hours=6)


def seeds(hosts: int) -> Iterator[Task]:
    """Yield the tasks at the start: the sizes of the hosts follow Zipf's law, their order does not."""
    rank_sum = sum(1 / rank for rank in range(1, hosts + 1))
    sizes = [LEAST + round(hosts * (MEAN - LEAST) / rank / rank_sum) for rank in range(1, hosts + 1)]
    random.Random(1).shuffle(sizes)
    for page in range(max(sizes)):
        for host, size in enumerate(sizes):
            if page < size:
                yield Task(url=f"https://www.site-{host:06d}.example/pages/{page}")


def idle_seeds() -> Iterator[Task]:
    """Yield a task that is not due for hours, so that the run is neither drained nor has work."""
    yield Task(url="https://www.site-000000.example/later", delay=LATER)


def latency() -> float:
    """Return the seconds that a page takes."""
    return min(random.lognormvariate(0, SPREAD) * MEDIAN_LATENCY, 10.0)


def outcome_of(lease: Lease) -> Outcome:
    """Return what became of a page: an item and other pages, or an error."""
    chance = random.random()
    if chance < DEATHS:
        return Bury(lease, "HttpStatus: 404")
    if chance < DEATHS + FAILURES:
        return Retry(lease, "HttpStatus: 503", after=RETRY_AFTER)
    assert lease.task.url is not None
    host = lease.task.url.split("/", 3)[2]
    found = [Task(url=f"https://{host}/pages/{random.getrandbits(64):016x}") for _ in range(FOUND)]
    item = {"url": lease.task.url, "name": "A Light in the Attic", "price": 51.77, "in_stock": True}
    return Done(lease, items=[item], follow=found)

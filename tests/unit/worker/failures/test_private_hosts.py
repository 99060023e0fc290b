"""A run whose tasks are all at private hosts is stopped, and others go on without these tasks."""

import pytest

from shoal.core.errors import InvalidInput, QueueError
from shoal.core.model import Counts, HostStatus, Stats
from shoal.fetch.egress import Egress
from shoal.worker.failures.brake import PrivateHostCheck

PRIVATE = "10.0.0.1"


class Store:
    """A queue with a pending task at each of these hosts, and perhaps completed ones without a host."""

    def __init__(self, *names, completed=0):
        self._names, self._completed = names, completed

    async def stats(self, run_id):
        return Stats(pending=len(self._names), completed=self._completed)

    async def hosts(self, run_id):
        for name in self._names:
            yield HostStatus(host=name, counts=Counts(pending=1), delay=None, paused_for=None)


def check_of(store):
    return PrivateHostCheck(store, "r", Egress(()))


async def test_a_run_that_has_private_hosts_only_is_stopped():
    with pytest.raises(InvalidInput, match="All tasks that are left are at private hosts"):
        await check_of(Store(PRIVATE)).check(PRIVATE)


async def test_a_host_whose_name_does_not_tell_counts_once_its_page_is_refused():
    with pytest.raises(InvalidInput, match=r"--allow-private shop\.test$"):
        await check_of(Store("shop.test")).check("shop.test")


@pytest.mark.parametrize(
    "store",
    [Store(PRIVATE, "example.com"), Store(PRIVATE, completed=1), Store(PRIVATE, "unknown.test")],
    ids=lambda store: " ".join(store._names),
)
async def test_a_run_that_has_or_had_other_tasks_goes_on(store):
    await check_of(store).check(PRIVATE)


async def test_a_queue_that_cannot_tell_decides_nothing():
    class Away(Store):
        async def hosts(self, run_id):
            raise QueueError("away")
            yield

    check = check_of(Away(PRIVATE))
    with pytest.raises(QueueError):
        await check.check(PRIVATE)
    check._queue = Store(PRIVATE)
    with pytest.raises(InvalidInput, match="private hosts"):
        await check.check(PRIVATE)


async def test_the_message_allows_every_host_that_it_names():
    with pytest.raises(InvalidInput, match=r"with: --allow-private 10\.0\.0\.1 --allow-private 10\.0\.0\.2$"):
        await check_of(Store(PRIVATE, "10.0.0.2")).check(PRIVATE)

"""A run whose tasks are all at private hosts is stopped, and others go on without these tasks."""

import pytest

from shoal.core.errors import InvalidInput, QueueError
from shoal.core.model import ZERO, Counts, HostStatus, Note, Stats
from shoal.fetch.egress import Egress
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers.private_refusals import PrivateHostCheck

PRIVATE = "10.0.0.1"
PUBLIC = "93.184.216.34"


class Store:
    """A queue with a pending task at each of these hosts, and perhaps completed ones."""

    def __init__(self, *names, completed=0, completed_each=0):
        self._names, self._completed, self._completed_each = names, completed, completed_each
        self.written = {}

    async def stats(self, run_id):
        count = len(self._names)
        return Stats(pending=count, completed=self._completed + count * self._completed_each)

    async def notes(self, topic, keys=None):
        return {key: Note(value=value, stamp=1, age=ZERO) for key, value in self.written.items()}

    async def write_notes(self, topic, values, ttl=None):
        self.written.update(values)

    async def hosts(self, run_id):
        counts = Counts(pending=1, completed=self._completed_each)
        for name in self._names:
            yield HostStatus(host=name, counts=counts, delay=None, paused_for=None)


ZONE = dict.fromkeys(["example.com", "93.184.216.34.nip.io", "shop.corp"], PUBLIC)
ZONE |= dict.fromkeys(["a.test", "b.test"], PRIVATE)


async def look_up(name):
    if name not in ZONE:
        raise OSError("no such name")
    return [ZONE[name]]


def check_of(store, lookup=look_up, **settings):
    egress = Egress((), lookup=lookup)
    return PrivateHostCheck(store, "r", egress, ScraperSettings.read(**settings))


async def test_a_run_that_has_private_hosts_only_is_stopped_and_they_are_noted():
    store = Store(PRIVATE)
    with pytest.raises(InvalidInput, match="All tasks that are left are at private hosts"):
        await check_of(store).check(PRIVATE)
    assert store.written == {"r": b'["10.0.0.1"]'}  # for the commands that start workers


async def test_a_host_whose_name_does_not_tell_counts_once_its_page_is_refused():
    with pytest.raises(InvalidInput, match=r"--allow-private shop\.test$"):
        await check_of(Store("shop.test")).check("shop.test")


async def test_names_that_resolve_to_private_addresses_are_no_others():
    with pytest.raises(InvalidInput, match=r"--allow-private a\.test --allow-private b\.test$"):
        await check_of(Store("a.test", "b.test")).check("a.test")


async def test_through_a_proxy_names_decide_and_none_is_resolved():
    async def refuse(name):
        raise AssertionError(name)

    store = Store("10.0.0.2", "shop.corp", PRIVATE)
    for settings in ({"tor": True}, {"proxies": ["http://proxy.test:8080"]}):
        with pytest.raises(InvalidInput, match="private hosts"):
            await check_of(store, refuse, **settings).check(PRIVATE)
        await check_of(Store("a.test", PRIVATE), refuse, **settings).check(PRIVATE)


async def test_a_private_host_that_was_fetched_before_stops_its_run_although_others_were_too():
    with pytest.raises(InvalidInput, match="private hosts"):
        await check_of(Store(PRIVATE, completed=1, completed_each=1)).check(PRIVATE)


@pytest.mark.parametrize(
    "store",
    [
        Store(PRIVATE, "example.com"),
        Store(PRIVATE, completed=1),
        Store("93.184.216.34.nip.io", PRIVATE, completed_each=1),
        Store(PRIVATE, "shop.corp", completed_each=1),
        Store(PRIVATE, "unknown.test"),
    ],
    ids=lambda store: " ".join(store._names),
)
async def test_a_run_that_has_or_had_other_hosts_goes_on(store):
    await check_of(store).check(PRIVATE)
    assert store.written == {}


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

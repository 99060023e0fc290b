"""Which faults come when, and what the site of the chaos campaign looks like."""

from collections import Counter
from itertools import islice

import pytest

from tools.chaos.faults import DEALS
from tools.chaos.schedule import APPLY, KINDS, PROCESSES, kinds_of, schedule
from tools.chaos.site import Site, Trouble
from tools.chaos.stores import STORES

ROUNDS = 10


def some(seed, kinds=tuple(KINDS)):
    return list(islice(schedule(seed, kinds, every=2.0, lease=3.0), ROUNDS * len(kinds)))


def test_a_seed_deals_the_same_faults_again_and_another_seed_others():
    assert some(7) == some(7)
    assert some(7) != some(8)


def test_every_kind_comes_equally_often():
    assert set(Counter(fault.kind for fault in some(7)).values()) == {ROUNDS}


def test_faults_come_about_as_often_as_asked():
    assert all(1.0 <= fault.after <= 3.0 for fault in some(7))
    assert 1.8 < sum(fault.after for fault in some(7)) / len(some(7)) < 2.2


@pytest.mark.parametrize("kind", ["stop", "deaf", "freeze"])
def test_who_is_stopped_is_stopped_for_longer_than_its_lease(kind):
    assert all(fault.lasts > 3.0 for fault in some(7, [kind]))


def test_without_kinds_there_are_no_faults():
    assert some(7, []) == []


def test_every_kind_can_be_dealt_and_every_queue_can_be_opened():
    assert set(DEALS) == set(KINDS)
    assert set(STORES) == set(APPLY)


def test_a_file_has_no_server_to_kill_and_no_network():
    assert kinds_of("sqlite") == [*PROCESSES, "foreign"]
    assert kinds_of("sqlite", ["kill", "restart"]) == ["kill"]
    assert kinds_of("redis", ["kill", "restart"]) == ["kill", "restart"]


@pytest.mark.parametrize("pages", [1, 7, 300, 1_001])
def test_the_site_is_one_tree_whatever_its_troubles(pages):
    site, reached, found = Site(pages, hosts=6), [0], set()
    while reached:
        page = reached.pop()
        assert page not in found
        found.add(page)
        if site.trouble(page) is not Trouble.GONE:
            reached += site.links(page)
            assert all(site.parent(link) == page for link in site.links(page))
    assert found == set(range(pages))


def test_the_site_has_every_trouble_and_most_pages_have_none():
    site = Site(1_000, hosts=24)
    troubles = Counter(map(site.trouble, range(1_000)))
    assert set(troubles) == set(Trouble)
    assert troubles[Trouble.NONE] > 700
    assert troubles[Trouble.GONE] == len(list(site.gone()))

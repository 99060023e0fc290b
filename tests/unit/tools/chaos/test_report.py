"""What the chaos campaign says in the end, and which faults come when."""

import json
from collections import Counter
from itertools import islice

from tools.chaos.__main__ import command, read_options
from tools.chaos.history import Departure, History, Manners, Strike, Visit
from tools.chaos.report import as_json, complaints, failed, result
from tools.chaos.schedule import KINDS, schedule
from tools.chaos.site import Site, Trouble


def history(pages=3, **changes):
    """Return the history of a small site that was crawled twice a second, with two kills."""
    told = {
        "site": Site(pages, hosts=1),
        "manners": Manners(),
        "visits": [Visit(0, page, page / 2, page / 2 + 0.1, 200) for page in range(pages)],
        "strikes": [Strike("kill", "worker 7", at, at, 16) for at in (0.1, 0.6)],
        "items": Counter(range(pages)),
        "letters": {},
        "status": {"completed": pages, "dead": 0, "items": pages},
        "departures": [Departure(1, 0, "", 0.0)],
        "over": 3.6,
        "stale": 4,
    }
    return History(**(told | changes))


def test_what_was_broken_is_named_and_can_be_repeated():
    broken = result("redis", 7, history(items=Counter([0, 1, 1])))
    assert broken.verdict == "BROKEN: lost, doubled"
    assert complaints(broken).splitlines()[0] == "redis, --seed 7:"
    assert "  doubled: page 1 has 2 items" in complaints(broken)
    (row,) = json.loads(as_json([broken], {}))["queues"]
    assert (row["stale"], row["broken"]["doubled"]) == (4, ["page 1 has 2 items"])
    many = complaints(result("redis", 7, history(pages=20, items=Counter()))).splitlines()
    assert sum("lost: page" in line for line in many) == 5 and "  lost: and 15 more" in many
    assert failed("redis", 7, "no server").verdict == "BROKEN: failed"


def test_the_command_to_repeat_a_campaign_is_read_as_it_was_meant():
    words = ["--queue", "redis", "--faults", "kill,cut", "--every", "500ms", "--seed", "7", "--json"]
    options = read_options([*words, "--keep", "somewhere"])
    typed = command(options).removeprefix("make chaos ARGS='").removesuffix("'")
    assert vars(read_options(typed.split())) == vars(options) | {"keep": None, "json": False}


def some(seed, kinds=tuple(KINDS)):
    return list(islice(schedule(seed, kinds, every=2.0, lease=3.0), 10 * len(kinds)))


def test_a_seed_deals_the_same_faults_again_and_every_kind_equally_often():
    assert some(7) == some(7) != some(8)
    assert set(Counter(fault.kind for fault in some(7)).values()) == {10}
    assert 1.8 < sum(fault.after for fault in some(7)) / len(some(7)) < 2.2
    assert all(fault.lasts > 3.0 for fault in some(7, ["stop", "deaf", "freeze"]))  # longer than the lease


def test_the_site_is_one_tree_whatever_its_troubles():
    site, reached, found = Site(1_001, hosts=6), [0], Counter()
    while reached:
        page = reached.pop()
        found[page] += 1
        if site.trouble(page) is not Trouble.GONE:
            reached += site.links(page)
    assert found == Counter(range(1_001))
    assert {site.trouble(page) for page in found} == set(Trouble)

"""The judge of the chaos campaign: for each rule a history that breaks it, and what excuses one."""

from collections import Counter
from dataclasses import replace

import pytest

from tools.chaos.history import Death, Departure, History, Manners, Stall, Strike, Visit
from tools.chaos.judge import RULES, judge
from tools.chaos.pace import hasty, shortest_gap
from tools.chaos.site import Site, Trouble

SITE = Site(pages=300, hosts=6)
MANNERS = Manners(delay=0.5, per_host=2, lease=3.0, retry_after=4.0)
FIRST_STATUS = {Trouble.GONE: 404, Trouble.BROKEN: 500, Trouble.BUSY: 429}
GONE = set(SITE.gone())
PAGE = next(page for page in range(60, SITE.pages) if SITE.trouble(page) is Trouble.NONE)
BUSY = next(page for page in range(SITE.pages) if SITE.trouble(page) is Trouble.BUSY)
STATUS = {"completed": SITE.pages - len(GONE), "dead": len(GONE), "items": SITE.pages - len(GONE)}


def calm_visits():
    """Yield a page a second, and later once more those that fail at first."""
    for page in range(SITE.pages):
        status = FIRST_STATUS.get(SITE.trouble(page), 200)
        yield visit(page, float(page), status=status)
        if status in (500, 429):
            yield visit(page, page + 1_000.0)


def visit(page, at, *, lasts=0.1, status=200):
    return Visit(SITE.host(page), page, at, at + lasts, status)


def history(*more, **changes) -> History:
    """Return an innocent history, with more visits and some changes."""
    innocent = History(
        site=SITE,
        manners=MANNERS,
        visits=[*calm_visits(), *more],
        strikes=[],
        items=Counter(set(range(SITE.pages)) - GONE),
        letters=dict.fromkeys(GONE, "HttpStatus: 404"),
        status=STATUS,
        departures=[Departure(1, 3, "", 0.0), Departure(2, -9, "crash", 0.1)],
    )
    return replace(innocent, **changes)


def strike(begin, end=None, *, kind="kill", held=16):
    return Strike(kind, "worker 7", begin, begin if end is None else end, held)


def without(page):
    return Counter(set(range(SITE.pages)) - GONE - {page})


def test_an_innocent_history_breaks_nothing():
    assert judge(history()) == {}


def test_a_page_without_an_end_is_lost_and_its_parent_is_named():
    broken = judge(history(items=without(PAGE), status={**STATUS, "items": STATUS["items"] - 1}))
    assert list(broken) == ["lost"]
    assert (
        f"page {PAGE} " in broken["lost"][0] and f"page {SITE.parent(PAGE)} that links" in broken["lost"][0]
    )


def test_a_page_that_is_gone_must_be_a_dead_letter():
    letters = dict.fromkeys(sorted(GONE)[1:], "HttpStatus: 404")
    assert list(judge(history(letters=letters))) == ["lost"]


def test_a_second_item_of_a_page_is_seen():
    items = Counter(history().items) + Counter([PAGE])
    broken = judge(history(items=items, status={**STATUS, "items": items.total()}))
    assert broken == {"doubled": [f"page {PAGE} has 2 items"]}


@pytest.mark.parametrize("page", [min(GONE), SITE.pages])
def test_an_item_of_a_page_that_has_none_is_seen(page):
    items = Counter(history().items) + Counter([page])
    assert list(judge(history(items=items, status={**STATUS, "items": items.total()}))) == ["invented"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"leased": 2}, "2 tasks are leased"),
        ({"delayed": 1}, "1 tasks are delayed"),
        ({"expired": 1}, "1 tasks are expired"),
        ({"completed": SITE.pages}, "are completed or dead"),
        ({"items": 1}, "status counts 1 items"),
    ],
)
def test_a_task_that_is_in_no_terminal_state_or_in_two_is_seen(change, words):
    broken = judge(history(status=STATUS | change))
    assert list(broken) == ["unfinished"] and words in broken["unfinished"][0]


def test_a_dead_letter_must_be_explained_by_the_site_or_by_faults():
    changes = {"items": without(PAGE), "status": {**STATUS, "items": STATUS["items"] - 1}}
    letters = dict.fromkeys(GONE, "HttpStatus: 404")
    refused = history(letters=letters | {PAGE: "HttpStatus: 500"}, strikes=[strike(9.0)], **changes)
    assert list(judge(refused)) == ["buried"]
    died = letters | {PAGE: "WorkerDied: step 'page' was running"}
    assert list(judge(history(letters=died, **changes))) == ["buried"]
    assert judge(history(letters=died, strikes=[strike(9.0)], **changes)) == {}


def test_a_page_that_is_asked_for_again_must_have_been_in_hand_at_a_fault():
    again = visit(PAGE, PAGE + 40.5)
    assert list(judge(history(again, strikes=[strike(PAGE - 3.0)]))) == ["refetched"]
    assert list(judge(history(again, strikes=[strike(PAGE + 30.0)]))) == ["refetched"]
    assert judge(history(again, strikes=[strike(PAGE + 0.2)])) == {}
    assert judge(history(again, strikes=[strike(PAGE - 3.0, PAGE + 0.05)])) == {}


def test_no_more_may_be_asked_for_again_than_was_in_hand():
    again = [visit(PAGE, PAGE + 12.5 * turn) for turn in (1, 2, 3)]
    faults = [strike(PAGE + 12.5 * turn, held=1) for turn in (0, 1)]
    assert list(judge(history(*again[:2], strikes=faults))) == []
    crowd = [*faults, strike(PAGE + 25.1, held=0)]
    assert list(judge(history(*again, strikes=crowd))) == ["wasteful"]


def test_a_gap_below_the_bar_is_seen():
    near = visit(PAGE, PAGE + 0.45)
    broken = judge(history(near, strikes=[strike(PAGE)]))
    assert list(broken) == ["hasty"] and "0.900 of the delay" in broken["hasty"][0]
    assert shortest_gap(history(near)) == pytest.approx(0.9)


def test_a_gap_is_excused_only_if_the_machine_stood_still_for_what_it_lacks():
    near = visit(PAGE, PAGE + 0.45)
    for late, found in ((0.02, ["hasty"]), (0.04, [])):
        stalls = [Stall(PAGE - 50.0, 1.0), Stall(PAGE + 0.1, late), Stall(PAGE + 50.0, 1.0)]
        assert list(judge(history(near, strikes=[strike(PAGE)], stalls=stalls))) == found


def test_what_a_stopped_worker_had_on_its_way_is_excused_when_it_wakes_and_no_more_than_that():
    late = [visit(PAGE, PAGE + 0.5 + 0.05 * turn) for turn in range(5)]
    stop = replace(strike(PAGE - 5.0, PAGE + 0.48, kind="stop"), woken=1)
    assert not list(hasty(history(*late[:2], strikes=[stop])))
    assert list(hasty(history(visit(PAGE, PAGE + 0.2), strikes=[stop])))  # before it woke
    assert list(hasty(history(*late, strikes=[stop])))
    assert not list(hasty(history(*late, strikes=[replace(stop, woken=3)])))
    slowly = replace(stop, end=PAGE + 0.6, let_go=PAGE + 0.48)  # the machine was busy when it was woken
    assert not list(hasty(history(*late[:2], strikes=[slowly])))
    assert list(hasty(history(*late[:2], strikes=[replace(slowly, let_go=0.0)])))


def test_more_requests_at_once_than_promised_are_seen():
    slow = [visit(PAGE, PAGE + 2.0 + 0.6 * turn, lasts=2.0) for turn in range(3)]
    faults = [strike(PAGE, PAGE + 10.0, held=9)]
    assert list(judge(history(*slow, strikes=faults))) == ["crowded"]
    assert judge(history(*slow, strikes=faults, manners=replace(MANNERS, per_host=4))) == {}


def test_a_host_that_asked_for_rest_is_left_alone_unless_the_news_died_with_a_worker():
    alone = [one for one in calm_visits() if one.page != BUSY or one.status == 429]
    soon = history(visits=[*alone, visit(BUSY, BUSY + 3.0)])
    assert list(judge(soon)) == ["impatient"]
    assert judge(replace(soon, strikes=[strike(BUSY + 0.2)])) == {}
    assert judge(history(visits=[*alone, visit(BUSY, BUSY + 1.5)])) == {}  # it was on its way


def test_a_fault_after_which_nothing_comes_for_long_is_seen():
    quiet = [one for one in history().visits if not 100 < one.at < 113 or one.status in (429, 500)]
    faults = [strike(100.5, kind="restart")]
    broken = judge(history(visits=quiet, strikes=faults))
    assert list(broken) == ["sluggish"] and "restart of worker 7" in broken["sluggish"][0]


def test_a_launcher_that_gives_up_is_seen():
    departures = [Departure(1, 5, "", 0.0), Departure(2, 0, "", 0.0)]
    assert judge(history(departures=departures)) == {
        "deserted": ["launcher 1 ended by itself with exit code 5"]
    }


def test_a_worker_that_is_given_up_is_seen():
    deaths = [Death(1, 9.0, "failed: the store is full", is_final=True)]
    assert judge(history(deaths=deaths)) == {
        "stranded": ["launcher 1 gave a worker up: it failed: the store is full"]
    }


def test_a_worker_that_dies_must_have_been_struck_by_a_fault_before():
    death = Death(1, 9.0, "was ended by SIGKILL")
    of_launcher = {"launcher": 1, "workers": 1}
    assert list(judge(history(deaths=[death]))) == ["culled"]
    for faults, found in (
        ([replace(strike(8.0), **of_launcher)], []),
        ([replace(strike(9.5), **of_launcher)], ["culled"]),
        ([replace(strike(8.0), **(of_launcher | {"launcher": 2}))], ["culled"]),
        ([strike(8.0, kind="deaf")], ["culled"]),
    ):
        assert list(judge(history(deaths=[death], strikes=faults))) == found


def test_one_fault_explains_the_death_of_no_more_workers_than_it_struck():
    deaths = [Death(1, at, "was ended by SIGKILL") for at in (9.0, 9.1, 30.0)]
    freeze = replace(strike(5.0, kind="freeze"), launcher=1, workers=2)
    assert len(judge(history(deaths=deaths, strikes=[freeze]))["culled"]) == 1
    later = replace(strike(29.0), launcher=1, workers=1)
    assert judge(history(deaths=deaths, strikes=[freeze, later])) == {}
    early = replace(freeze, workers=1)
    assert len(judge(history(deaths=deaths, strikes=[early, later]))["culled"]) == 1


def test_who_lingers_after_sigterm_or_outlives_its_launcher_is_seen():
    slow = [Departure(1, 3, "term", 60.0), Departure(2, 3, "term", 5.0)]
    assert list(judge(history(departures=slow))) == ["lingering"]
    assert judge(history(left_over=["77 shoal"])) == {"lingering": ["left behind: 77 shoal"]}


def test_every_rule_is_broken_by_a_history_above():
    tested = {"lost", "doubled", "invented", "unfinished", "buried", "refetched", "wasteful", "hasty"}
    assert set(RULES) == tested | {
        "crowded",
        "impatient",
        "sluggish",
        "deserted",
        "stranded",
        "culled",
        "lingering",
    }

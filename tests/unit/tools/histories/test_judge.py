"""The judge of histories: for each rule a record that breaks it, and what does not."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from shoal.core.model import Bury, Done, Fate, Release, Retry, Stats
from tests.unit.tools.histories.records import at, broken, done, held, record, settled
from tools.histories.judge import RULES, figures, judge
from tools.histories.record import End, Entered, Extension


def test_an_innocent_record_breaks_nothing_and_is_counted():
    good = record(done("a", 0), done("b", 1), done("c", 1, host="b.example"))
    assert judge(good) == {}
    assert (figures(good).completed, figures(good).gaps, figures(good).smallest) == (3, 1, 1.0)


def test_two_used_starts_on_one_host_keep_the_gap():
    assert broken(done("a", 0), done("b", 0.9)) == ["hasty"]
    assert broken(done("a", 0), done("b", 0.9, host="b.example")) == []


def test_a_start_that_was_given_back_does_not_count_unless_the_host_was_asked_all_the_same():
    for has_asked, found in ((False, []), (True, ["hasty"])):
        back = settled(held("a", 0), Done, 0.1, asked=False, has_asked=has_asked)
        assert broken(back, done("b", 0.9)) == found


def test_a_refused_outcome_gives_no_start_back():
    late = settled(held("a", 0, lease=0.2), Release, 0.4, fate=Fate.STALE, asked=False)
    again = done("a", 0.5, token=2, attempt=2)
    assert broken(late, again) == ["hasty"]


def test_no_more_leases_of_a_host_are_live_than_the_run_allows():
    three = [held(task, place, lease=9.0, attempt=2) for place, task in enumerate("abc")]
    firsts = [
        settled(held(task, -20 + 2 * n, token=0), Retry, -19.9 + 2 * n, error="")
        for n, task in enumerate("abc")
    ]
    assert broken(*firsts, *three) == ["crowded"]
    assert broken(*firsts, *three[:2], replace(three[2], host="b.example")) == []
    # A moment that is not known exactly accuses nobody.
    assert broken(*firsts, *three[:2], replace(three[2], latest=at(20))) == []


def test_a_claim_in_steps_may_grant_expired_leases_again():
    def steps(*offsets):
        for number, seconds in enumerate(offsets):
            one = held(f"t{number}", 0, claim=7)
            delays = {"start_in": timedelta(seconds=seconds), "deadline_in": timedelta(seconds=10 + seconds)}
            yield settled(replace(one, lease=structs.replace(one.lease, **delays)), Done, seconds + 0.1)

    assert broken(*steps(0, 1, 2)) == ["crowded"]
    assert broken(*steps(0, 1, 11)) == []


def test_a_task_is_lent_once_at_a_time_and_its_tokens_rise():
    again = done("a", 5, token=2, attempt=2)
    assert broken(held("a", 0), again) == ["shared"]
    assert broken(held("a", 0, lease=3.0), again) == []
    lower = [done("a", 5, token=2, attempt=2), held("a", 8, token=1, lease=1.0)]
    assert "shared" in broken(*lower)


def test_an_extension_that_was_accepted_keeps_the_task():
    one = held("a", 0, lease=3.0)
    one.extensions.append(Extension(at(2), at(2.1), timedelta(seconds=9), Fate.ACCEPTED))
    assert broken(one, done("a", 5, token=2, attempt=2)) == ["shared"]


def test_attempts_are_counted_but_for_those_that_were_given_back():
    given = settled(held("a", 0), Release, 1)
    assert broken(given, done("a", 5, token=2, attempt=1)) == []
    assert broken(given, done("a", 5, token=2, attempt=2)) == ["miscounted"]


def test_a_lease_is_settled_once_and_a_lost_one_never():
    twice = settled(done("a", 0), Done, 1)
    assert broken(twice) == ["misjudged"]
    late = settled(held("a", 0, lease=1.0), Done, 6)
    assert "misjudged" in broken(late, done("a", 5, token=2, attempt=2))


def test_a_live_lease_is_not_refused():
    refused = settled(held("a", 0, attempt=1), Done, 1, fate=Fate.STALE)
    assert broken(refused, done("a", 20, token=2, attempt=2)) == ["misjudged"]


def test_what_was_abandoned_is_refused():
    gone = held("a", 0)
    gone.abandoned = (at(1), at(1.1))
    assert broken(gone, done("a", 5, token=2, attempt=1)) == []
    assert "misjudged" in broken(settled(gone, Done, 2))


def test_what_has_ended_is_not_lent_again():
    buried = settled(held("a", 0), Bury, 1, error="")
    assert broken(buried, done("a", 5, token=2, attempt=2)) == ["ended_twice"]


def test_a_delay_is_waited_for():
    entered = [Entered("r", "a", at(0), delay=timedelta(seconds=3))]
    assert broken(done("a", 2), entered=entered) == ["early"]
    assert broken(done("a", 4), entered=entered) == []
    retried = settled(held("a", 0), Retry, 1, error="", after=timedelta(seconds=9))
    assert broken(retried, done("a", 5, token=2, attempt=2)) == ["early"]


def test_a_paused_host_is_left_alone():
    pauser = settled(held("a", 0), Bury, 1, error="", pause_host=timedelta(seconds=9))
    assert broken(pauser, done("b", 5)) == ["restless"]
    assert broken(pauser, done("b", 15)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"entered": [Entered("r", "a", at(-1)), Entered("r", "b", at(-1))]},
        {"is_drained": False},
        {"ends": {"r": End(Stats(dead=1), [], ["a"])}},
        {"ends": {"r": End(Stats(completed=1, items=1, pending=1), [("a", 1)], [])}},
    ],
)
def test_a_task_that_comes_to_no_end_or_to_another_is_seen(changes):
    assert "lost" in broken(done("a", 0), **changes)


@pytest.mark.parametrize("items", [[], [("a", 1), ("a", 1)], [("a", 1), ("a", 0)]])
def test_each_accepted_result_is_stored_once_and_no_other(items):
    ends = {"r": End(Stats(completed=1, items=len(items)), items, [])}
    assert broken(done("a", 0), ends=ends) == ["doubled"]


def test_what_was_wrong_at_once_is_said():
    assert broken(done("a", 0), complaints=["a wrong report"]) == ["told_wrong"]


def test_every_rule_is_broken_by_a_record_above():
    tested = {"hasty", "crowded", "shared", "miscounted", "misjudged", "ended_twice"}
    after_failovers = {"reissued", "revived"}  # in test_timelines.py
    assert tested | {"early", "restless", "lost", "doubled", "told_wrong"} | after_failovers == RULES

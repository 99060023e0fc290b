"""Records with a failover: what the replica missed may be lost and done again, and nothing else."""

from datetime import timedelta

import pytest

from shoal.core.model import Done, Fate, Release
from tests.unit.tools.histories.records import at, broken, done, held, record, settled
from tools.histories.judge import figures, judge
from tools.histories.record import Entered, Extension, Failover
from tools.histories.timelines import timelines

# The replica has all until 10, misses what comes after 11, and takes over at 20.
FAILOVER = Failover(at(10), at(11), at(20))
EARLIER = Entered("r", "a", at(-100), at(-99))


def after_failover(*holdings, **changes):
    return broken(*holdings, failovers=[FAILOVER], **({"entered": [EARLIER]} | changes))


def test_what_was_completed_in_the_lost_moments_may_be_done_again():
    lost, again = done("a", 15), done("a", 25, token=2)
    assert after_failover(lost, again) == []
    assert set(broken(lost, again)) == {"doubled", "ended_twice", "miscounted"}
    assert figures(record(lost, again, failovers=[FAILOVER])).redone == 1


def test_what_was_completed_before_is_not_done_again():
    kept, again = done("a", 5), done("a", 25, token=2, attempt=2)
    assert set(after_failover(kept, again)) == {"doubled", "ended_twice"}


def test_a_lease_from_before_is_live_though_its_settlement_is_lost():
    kept = settled(held("a", 5, lease=30.0), Done, 15)
    assert after_failover(kept, done("a", 25, token=2, attempt=2)) == ["shared"]
    assert after_failover(kept, done("a", 40, token=2, attempt=2)) == []


def test_a_lease_that_was_lost_is_refused_by_the_new_primary():
    refused = settled(held("a", 15), Done, 25, fate=Fate.STALE)
    assert after_failover(refused, done("a", 30, token=2)) == []
    accepted = settled(held("a", 15), Release, 25)
    assert after_failover(accepted, done("a", 30, token=2)) == ["revived"]
    extended = held("a", 15)
    extended.extensions.append(Extension(at(25), at(25.1), timedelta(seconds=9), Fate.ACCEPTED))
    assert after_failover(extended, done("a", 60, token=2)) == ["revived"]


def test_no_token_is_given_twice_though_the_first_lease_was_lost():
    assert after_failover(done("a", 15, token=7), done("a", 25, token=7)) == ["reissued"]


def test_a_task_that_entered_before_comes_to_its_end_and_one_of_the_lost_moments_need_not():
    other = done("b", 30)
    for moment, found in ((5, ["lost"]), (15, [])):
        entered = [Entered("r", "b", at(-1), at(-0.9)), Entered("r", "a", at(moment), at(moment + 0.1))]
        assert after_failover(other, entered=entered) == found


def test_a_result_that_was_stored_before_is_still_there():
    kept = record(done("a", 5), failovers=[FAILOVER], entered=[EARLIER])
    kept.ends["r"].items = []
    assert list(judge(kept)) == ["doubled"]


@pytest.mark.parametrize("moment", [10.4, 19.8])
def test_what_may_have_been_lost_or_not_accuses_nobody(moment):
    doubtful = settled(held("a", 5, lease=60.0), Done, moment)
    doubtful.settlements[0].answered = at(moment + 0.5)  # the cut, or the move, lies in between
    assert after_failover(doubtful) == []
    told = record(doubtful, failovers=[FAILOVER], entered=[EARLIER])
    assert [line.left_out for line in timelines(told)][-1] == {"a"}

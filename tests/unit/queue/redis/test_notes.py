"""Which notes a trim takes when each shard shows only its oldest."""

from shoal.queue.redis.notes import PAGE, Aged, doomed_of


def aged(shard, *written, size=10):
    return [Aged(moment, shard, b"key", b"stamp", size) for moment in written]


def test_the_oldest_of_all_shards_go_first_and_no_more_than_needed():
    doomed = doomed_of([aged(0, 1, 4, 5), aged(1, 2, 3, 6)], excess=25)
    assert [(one.written, one.shard) for one in doomed] == [(1, 0), (2, 1), (3, 1)]


def test_what_fits_loses_nothing():
    assert doomed_of([aged(0, 1), []], excess=0) == []


def test_behind_a_full_page_nothing_is_known_to_be_the_oldest():
    full = aged(0, *range(PAGE))
    doomed = doomed_of([full, aged(1, PAGE - 2, PAGE + 10)], excess=10**9)
    assert max(one.written for one in doomed) == PAGE - 1
    assert len(doomed) == PAGE + 1

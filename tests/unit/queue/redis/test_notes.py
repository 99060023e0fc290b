"""Which notes a trim removes when each shard returns only its oldest."""

from shoal.queue.redis.notes import PAGE, AgedNote, oldest_notes


def aged(shard, *written, size=10):
    return [AgedNote(moment, shard, b"key", b"stamp", size) for moment in written]


def test_the_oldest_of_all_shards_go_first_and_no_more_than_needed():
    oldest = oldest_notes([aged(0, 1, 4, 5), aged(1, 2, 3, 6)], excess=25)
    assert [(one.written, one.shard) for one in oldest] == [(1, 0), (2, 1), (3, 1)]


def test_a_topic_within_its_limit_loses_nothing():
    assert oldest_notes([aged(0, 1), []], excess=0) == []


def test_after_a_full_page_no_note_is_known_to_be_the_oldest():
    full = aged(0, *range(PAGE))
    oldest = oldest_notes([full, aged(1, PAGE - 2, PAGE + 10)], excess=10**9)
    assert max(one.written for one in oldest) == PAGE - 1
    assert len(oldest) == PAGE + 1

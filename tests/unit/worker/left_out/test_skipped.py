"""Reasons for which steps skip tasks are bounded."""

from shoal.worker.left_out.skipped import MAX_LENGTH, MAX_REASONS, skip_reason


def test_a_reason_is_one_short_printable_line():
    assert skip_reason("sold\n out\x1b", {}) == "skipped: sold out\ufffd"
    assert len(skip_reason("x" * 1000, {})) == len("skipped: ") + MAX_LENGTH


def test_after_many_reasons_new_ones_share_a_name():
    counted = {"out of scope": 1} | {skip_reason(f"reason {n}", {}): 1 for n in range(MAX_REASONS)}
    assert skip_reason("one more", counted) == "skipped: other reasons"
    assert skip_reason("reason 3", counted) == "skipped: reason 3"

"""The modification date of an entry."""

from datetime import UTC, datetime

import pytest

from shoal.discover.sitemaps.parse import latest_time


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-02-15T12:00:00Z", datetime(2026, 2, 15, 12, tzinfo=UTC)),
        ("2026-02-15T12:00:00+02:00", datetime(2026, 2, 15, 10, tzinfo=UTC)),
        ("2026-02-15T12:00:00.123+00:00", datetime(2026, 2, 15, 12, 0, 0, 123_000, tzinfo=UTC)),
        ("2026-02-15T12:00", datetime(2026, 2, 15, 12, tzinfo=UTC)),
        ("2026-02-15", datetime(2026, 2, 16, tzinfo=UTC)),
        ("2026-02", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-12", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026", datetime(2027, 1, 1, tzinfo=UTC)),
        ("Sun, 15 Feb 2026 12:00:00 GMT", datetime(2026, 2, 15, 12, tzinfo=UTC)),
        ("Sun, 15 Feb 2026 12:00:00 +0200", datetime(2026, 2, 15, 10, tzinfo=UTC)),
    ],
)
def test_a_date_means_the_last_moment_that_it_may(text, moment):
    assert latest_time(text) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "9999", "9999-12", "9999-12-31", "0000-00-00", "2026-13", "20260", "2026-02-30"]
)
def test_what_is_no_date_is_none(text):
    assert latest_time(text) is None

"""What the date of a task says about its page."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.model import Task
from shoal.core.revisits import PageDate
from shoal.worker.revisits import date_of

NOW = datetime(2026, 2, 15, 3, tzinfo=UTC)
AGE = timedelta(days=2)  # so the last fetch was on the 13th at 3:00


@pytest.mark.parametrize(
    ("payload", "has_sitemaps", "date"),
    [
        ({}, True, PageDate.UNKNOWN),
        ({"lastmod": "2026-02-13T03:00:01Z"}, True, PageDate.NEWER),
        ({"lastmod": "2026-02-13T03:00:00Z"}, True, PageDate.OLDER),
        ({"lastmod": "2026-02-13"}, True, PageDate.NEWER),  # perhaps in the evening
        ({"lastmod": "2026-02-12"}, True, PageDate.OLDER),
        ({"lastmod": "2026-02-12"}, False, PageDate.UNKNOWN),  # from the task of an earlier run
        ({"lastmod": "yesterday"}, True, PageDate.UNKNOWN),
        ({"lastmod": 20260214}, True, PageDate.UNKNOWN),
        ({"published": "Mon, 09 Feb 2026 10:00:00 GMT"}, True, PageDate.UNKNOWN),
        ({"published": "Sat, 14 Feb 2026 10:00:00 GMT"}, False, PageDate.NEWER),
        ({"published": "2026-01-01", "updated": "2026-02-14T10:00:00Z"}, False, PageDate.NEWER),
        ({"lastmod": "9999-12-31"}, True, PageDate.UNKNOWN),  # the day after it does not exist
    ],
)
def test_a_date_is_compared_with_the_last_fetch(payload, has_sitemaps, date):
    task = Task(url="https://shop.test/hat", payload=payload)
    assert date_of(task, AGE, NOW, has_sitemaps=has_sitemaps) is date

"""The address of a PostgreSQL as it may be shown."""

import pytest

from shoal.core.model import ZERO
from shoal.queue.postgres.server import Server


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/shoal", "postgresql://db/shoal"),
        ("postgresql://me@db:5433/shoal", "postgresql://me@db:5433/shoal"),
        ("postgresql://me:secret@db/shoal?sslmode=require", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec/ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec?ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec@ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://db/shoal?password=secret", "postgresql://db/shoal"),
        ("postgresql://me:s@db/shoal?options=a@b", "postgresql://me:…@b"),
    ],
)
def test_no_spelling_of_a_password_is_shown(url, shown):
    assert Server(url, patience=ZERO).address == shown

"""Queries by name, several in a file."""

import pytest

from shoal.queue.named_queries import read_queries


def test_a_file_holds_several_queries_with_their_comments(tmp_path):
    (tmp_path / "a.sql").write_text(
        "-- A theme.\n\n-- name: one\n-- Why.\nSELECT 1\n\n-- name: two\nSELECT 2\n"
    )
    (tmp_path / "b.sql").write_text("-- name: three\nSELECT 3\n")
    assert read_queries(tmp_path) == {"one": "-- Why.\nSELECT 1", "two": "SELECT 2", "three": "SELECT 3"}


def test_a_name_occurs_once(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.sql").write_text("-- name: one\nSELECT 1\n")
    with pytest.raises(ValueError, match="one is defined twice"):
        read_queries(tmp_path)

"""Adding the items of another run to a CSV file."""

import csv
from datetime import UTC, datetime

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.open import open_writer


def items(*rows):
    return [
        StoredItem(id=number, task_id="t", url=None, step="s", data=row, stored_at=datetime.now(UTC))
        for number, row in enumerate(rows, 1)
    ]


def write(path, *rows, **options):
    writer = open_writer(path, **options)
    try:
        if writer.needs_survey:
            writer.survey(items(*rows))
        writer.write(items(*rows))
    except BaseException:
        writer.discard()
        raise
    writer.close()


def rows_of(path):
    return list(csv.reader(path.read_text().splitlines(keepends=True)))


def test_rows_are_added_below_the_header_in_its_order(tmp_path):
    path = tmp_path / "items.csv"
    write(path, {"a": 1, "b": "x"}, existing="append")
    write(path, {"b": "y;z", "a": 2}, {"b": "only"}, existing="append")
    assert rows_of(path) == [["a", "b"], ["1", "x"], ["2", "y;z"], ["", "only"]]


def test_another_column_is_refused_and_the_file_stays_as_it_was(tmp_path):
    path = tmp_path / "items.csv"
    write(path, {"a": 1})
    before = path.read_bytes()
    with pytest.raises(InvalidSetting, match=r"has no 'c'.*--overwrite"):
        write(path, {"a": 2, "c": 3}, existing="append")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"a,b\r\n1,x\r\n2", b'"a,b\r\n', b"\xff\xfe\n"])
def test_a_file_that_is_cut_or_no_csv_is_not_touched(tmp_path, content):
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidSetting, match="Choose another file"):
        write(path, {"a": 2, "b": 3}, existing="append")
    assert path.read_bytes() == content


def test_parquet_is_refused_with_what_to_type(tmp_path):
    with pytest.raises(InvalidSetting, match=r"\.csv files.*--overwrite"):
        open_writer(tmp_path / "items.parquet", existing="append")

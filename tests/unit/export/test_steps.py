"""One file per step."""

import pytest

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.follow import export
from shoal.export.open import open_writer
from shoal.export.steps import step_file, step_table
from tests.unit.export.factories import item, source

SUFFIXES = ["jsonl", "jsonl.gz", "csv", "parquet"]
MIXED = [item({"n": 1}, 1, "listing"), item({"title": "lamp"}, 2, "product"), item({"n": 3}, 3, "listing")]


async def test_the_columns_of_a_step_are_its_own(tmp_path):
    await export(source(MIXED), open_writer(tmp_path / "items.csv", by_step=True))
    assert (tmp_path / "items.listing.csv").read_text().split() == ["n", "1", "3"]
    assert (tmp_path / "items.product.csv").read_text().split() == ["title", "lamp"]


@pytest.mark.parametrize(
    ("path", "step", "file"),
    [
        ("items.jsonl.gz", "book", "items.book.jsonl.gz"),
        ("a.b/items", "book", "a.b/items.book"),
        ("{step}/items.csv", "book", "book/items.csv"),
        ("items.csv", "größe", "items.größe.csv"),
    ],
)
def test_the_step_name_is_inserted_before_the_suffix_or_replaces_the_placeholder(path, step, file):
    assert step_file(path, step, SUFFIXES) == file


def test_the_step_name_cannot_escape_the_folder():
    file = step_file("items.csv", "../../etc/passwd", SUFFIXES)
    assert "/" not in file and ".." not in file
    assert file != step_file("items.csv", ".._.._etc/passwd", SUFFIXES)
    assert "." not in step_table("books", "public.users")


def test_the_table_of_a_step_has_both_names():
    assert step_table("shop", "book") == "shop_book"
    assert step_table("{step}s", "book") == "books"


async def test_two_steps_never_share_a_file(tmp_path):
    writer = open_writer(tmp_path / "{step}.jsonl", by_step=True)
    writer._place = lambda step: "one.jsonl"
    with pytest.raises(InvalidSetting, match="two steps to one"):
        await export(source(MIXED), writer)


def test_stdout_cannot_be_split_by_step():
    with pytest.raises(InvalidSetting, match="cannot be split by step"):
        open_writer("-", by_step=True)


async def test_an_error_leaves_no_file_of_any_step(tmp_path):
    async def broken():
        for one in MIXED:
            yield one
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await export(broken, open_writer(tmp_path / "items.csv", by_step=True))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_closed_leaves_no_partial_files(tmp_path):
    writer = open_writer(tmp_path / "{step}.jsonl", by_step=True)
    writer.write(MIXED)
    first = writer._writers["listing"]
    first.close = lambda: (_ for _ in ()).throw(ExportFailed("listing", "full", "Free disk space"))
    with pytest.raises(ExportFailed):
        writer.close()
    assert list(tmp_path.iterdir()) == []

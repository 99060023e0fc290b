"""Choosing a writer by name, and invalid names."""

import gzip
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shoal.core.errors import InvalidSetting
from shoal.export.files.csv import CsvWriter
from shoal.export.files.jsonl import GzipJsonlWriter, JsonlWriter
from shoal.export.files.parquet import ParquetWriter
from shoal.export.open import open_writer
from shoal.registry.extras import install_command
from tests.unit.export.factories import item, items


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("items.jsonl", JsonlWriter),
        ("items.JSONL", JsonlWriter),
        ("items.ndjson", JsonlWriter),
        ("2026.02.15.jsonl.gz", GzipJsonlWriter),
        ("items.csv", CsvWriter),
        ("items.parquet", ParquetWriter),
    ],
)
def test_the_suffix_selects_the_writer(tmp_path, name, kind):
    writer = open_writer(tmp_path / name)
    writer.discard()
    assert type(writer) is kind


def test_an_explicit_format_needs_no_suffix(tmp_path):
    with open_writer(tmp_path / "items", format="csv") as writer:
        writer.write(items({"name": "lamp"}))
    assert (tmp_path / "items").read_text() == "name\nlamp\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("items.json", "Did you mean .jsonl?"),
        ("items.cvs", "Did you mean .csv?"),
        ("items", "Supported: .jsonl, .jsonl.gz, .csv, .parquet."),
        ("items.xlsx", "Supported:"),
    ],
)
def test_an_unknown_suffix_is_rejected_with_a_hint(tmp_path, name, hint):
    with pytest.raises(InvalidSetting) as caught:
        open_writer(tmp_path / name)
    assert hint in str(caught.value)


def test_an_unknown_format_is_rejected_with_a_hint(tmp_path):
    with pytest.raises(InvalidSetting, match=r"Did you mean \.parquet\?"):
        open_writer(tmp_path / "items.csv", format="parket")


def test_a_missing_folder_is_rejected_with_the_command_that_creates_it(tmp_path):
    with pytest.raises(InvalidSetting, match=f"mkdir -p {tmp_path}/a/b"):
        open_writer(tmp_path / "a" / "b" / "items.jsonl")


def test_a_folder_is_rejected_with_a_file_to_use(tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(InvalidSetting, match=r"out\.csv/items\.jsonl"):
        open_writer(tmp_path / "out.csv")


@contextmanager
def as_nobody():
    """Run as the user nobody, without root's permissions."""
    nobody, is_root = 65_534, os.geteuid() == 0
    if is_root:
        os.setresuid(nobody, nobody, 0)
    try:
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


def test_a_folder_without_permission_is_rejected():
    with TemporaryDirectory() as folder:  # not in pytest's own folder, which other users cannot enter
        Path(folder).chmod(0o555)
        with as_nobody(), pytest.raises(InvalidSetting, match="chmod u\\+w"):
            open_writer(Path(folder) / "items.jsonl")


def test_a_folder_that_cannot_be_written_is_rejected_with_the_reason():
    with pytest.raises(InvalidSetting, match=r"/proc/items\.jsonl (cannot be|may not be) written"):
        open_writer("/proc/items.jsonl")


def test_only_json_lines_can_be_written_live(tmp_path):
    with pytest.raises(InvalidSetting, match=r"Use a \.jsonl file"):
        open_writer(tmp_path / "items.csv", live=True)


def test_parquet_cannot_be_written_to_stdout():
    with pytest.raises(InvalidSetting, match=r"items\.parquet"):
        open_writer("-", format="parquet")


def test_a_missing_pyarrow_is_reported_with_its_extra_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidSetting) as caught:
        open_writer(tmp_path / "items.parquet")
    assert install_command("parquet") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_same_items_make_the_same_compressed_file(tmp_path):
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        with open_writer(tmp_path / name) as writer:
            writer.write(items({"n": 1}, {"n": 2}))
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.jsonl.gz").read_bytes()) == b'{"n":1}\n{"n":2}\n'


@pytest.mark.parametrize("name", ["items.jsonl", "items.jsonl.gz", "items.csv", "items.parquet"])
def test_an_existing_file_is_refused_on_request_and_stays(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"precious")
    with pytest.raises(InvalidSetting, match=r"already exists\. Add --overwrite to replace it") as caught:
        open_writer(path, existing="refuse")
    assert ("--append" in str(caught.value)) == ("parquet" not in name)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_steps_are_refused_one_by_one(tmp_path):
    (tmp_path / "items.book.jsonl").write_text("{}\n")
    writer = open_writer(tmp_path / "items.jsonl", by_step=True, existing="refuse")
    with pytest.raises(InvalidSetting, match="already exists"):
        writer.write([item({"n": 1}, step="book")])
    writer.discard()


@pytest.mark.parametrize("name", ["items.jsonl", "items.jsonl.gz"])
def test_lines_are_appended_whole_or_not_at_all(tmp_path, name):
    path = tmp_path / name
    for number in (1, 2):
        with open_writer(path, existing="append") as writer:
            writer.write([item({"n": number}, number)])
    before = path.read_bytes()
    writer = open_writer(path, existing="append")
    writer.write([item({"n": 3}, 3)])
    writer.discard()
    assert path.read_bytes() == before
    lines = (gzip.decompress(before) if name.endswith("gz") else before).splitlines()
    assert lines == [b'{"n":1}', b'{"n":2}']

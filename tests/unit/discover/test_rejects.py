"""The reject file."""

import json

import pytest

from shoal.core.errors import InvalidSetting
from shoal.discover.rejects import RejectFile
from shoal.discover.source import Refusal


def test_every_refusal_is_a_line_of_json(tmp_path):
    path = tmp_path / "rejects.jsonl"
    with RejectFile(str(path)) as rejects:
        rejects.write(Refusal("urls.csv:17", "nonsense", "it has no scheme"))
        rejects.write(Refusal("urls.csv:18", "«»", "two\nlines"))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"where": "urls.csv:17", "text": "nonsense", "reason": "it has no scheme"},
        {"where": "urls.csv:18", "text": "«»", "reason": "two\nlines"},
    ]
    assert rejects.count == 2


def test_a_second_run_replaces_the_file_of_the_first(tmp_path):
    path = tmp_path / "rejects.jsonl"
    for number in range(2):
        with RejectFile(str(path)) as rejects:
            rejects.write(Refusal("x", str(number), "y"))
    assert json.loads(path.read_text())["text"] == "1"


@pytest.mark.parametrize("content", ["https://a.test/\n", '{"url": "https://a.test/"}\n', "\xff\xfe", '"x"'])
def test_another_file_is_never_overwritten(tmp_path, content):
    path = tmp_path / "urls.txt"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(
        InvalidSetting, match=r"urls.txt already exists and is not a reject file; choose another name"
    ):
        RejectFile(str(path))
    assert path.read_text(encoding="latin-1") == content


def test_an_empty_file_may_be_written(tmp_path):
    path = tmp_path / "rejects.jsonl"
    path.touch()
    RejectFile(str(path)).close()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InvalidSetting, match="cannot be written: No such file"):
        RejectFile(str(tmp_path / "missing" / "rejects.jsonl"))


def test_a_full_disk_is_named():
    with (
        pytest.raises(InvalidSetting, match="/dev/full cannot be written: No space left"),
        RejectFile("/dev/full") as rejects,
    ):
        rejects.write(Refusal("x", "y", "z"))

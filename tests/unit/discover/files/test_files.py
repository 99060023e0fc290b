"""URL files with one URL per line."""

import gzip
import io
import sys
from types import SimpleNamespace

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import Task
from shoal.discover.files.files import UrlFile, format_of
from shoal.discover.files.lines import MAX_LINE
from shoal.discover.files.table import Columns
from shoal.discover.source import Refusal


@pytest.fixture
def file(tmp_path):
    def write(content, name="urls.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def test_every_line_becomes_a_task_but_for_blanks_and_comments(file):
    path = file("\ufeffhttps://a.test/1\r\n\r\n  # a comment\r\n  https://A.test/2#top  \r\n")
    assert list(UrlFile(path, step="listing")) == [
        Task(url="https://a.test/1", step="listing"),
        Task(url="https://a.test/2", step="listing"),
    ]


def test_an_invalid_line_is_refused_with_its_place_and_reason(file):
    path = file("https://a.test/1\nnonsense\nftp://a.test/\n")
    one, *refusals = UrlFile(path)
    assert isinstance(one, Task)
    assert refusals == [
        Refusal(f"{path}:2", "nonsense", "it has no scheme; write it in full: https://…"),
        Refusal(f"{path}:3", "ftp://a.test/", "its scheme is 'ftp'; only http and https can be fetched"),
    ]


def test_a_line_without_end_is_refused_and_shown_in_part(file):
    path = file(f"https://a.test/{'x' * MAX_LINE}\nhttps://a.test/2\n")
    refusal, task = UrlFile(path)
    assert refusal.where == f"{path}:1"
    assert refusal.reason == "the line has more than 1,048,576 characters"
    assert len(refusal.text) == 200
    assert task.url == "https://a.test/2"


def test_a_url_that_is_not_utf_8_is_refused_rather_than_bent(file):
    path = file(b"https://a.test/caf\xe9\nhttps://caf\xe9.test/\nhttps://a.test/caf\xc3\xa9\n")
    path_refused, host_refused, task = UrlFile(path)
    assert "it is not valid UTF-8" in path_refused.reason
    assert "it is not valid UTF-8" in host_refused.reason
    assert task.url == "https://a.test/caf%C3%A9"


def test_two_columns_in_a_text_file_are_not_run_together(file):
    (refusal,) = UrlFile(file("https://a.test/\tTitle\n"))
    assert refusal.reason.startswith("it contains a tab or line break")


def test_a_password_does_not_reach_the_refusal(file):
    for found in UrlFile(file("https://me:secret@a.test/\nftp://me:secret@a.test/\n//me:secret@a.test\n")):
        assert "secret" not in str(found)


def test_what_a_terminal_would_obey_does_not_reach_the_refusal(file):
    (refusal,) = UrlFile(file("\x1b[31mred\x1b[0m\n"))
    assert refusal.text == "\ufffd[31mred\ufffd[0m"


def test_a_file_may_be_read_twice(file):
    source = UrlFile(file("https://a.test/1\nhttps://a.test/2\n"))
    assert list(source) == list(source)
    assert source.where.endswith(":2")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("urls.txt", "txt"),
        ("urls", "txt"),
        ("urls.lst", "txt"),
        ("urls.txt.gz", "txt"),
        ("urls.CSV", "csv"),
        ("urls.csv.gz", "csv"),
        ("urls.tsv", "tsv"),
        ("urls.jsonl", "jsonl"),
        ("urls.ndjson.gz", "jsonl"),
        ("-", "txt"),
    ],
)
def test_the_format_goes_by_the_suffix(name, format):
    assert format_of(name) == format


def test_a_named_format_wins_over_the_suffix(file):
    (task,) = UrlFile(file('"https://a.test/"\n', "urls.txt"), format="jsonl")
    assert task.url == "https://a.test/"


def test_an_unknown_format_is_named_with_what_was_meant():
    with pytest.raises(InvalidSetting, match=r"format 'json' cannot be read\. Did you mean 'jsonl'\?"):
        UrlFile("urls.txt", format="json")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("book.xlsx", "save it as .txt, .csv or .jsonl"),
        ("urls.json", "add: --format jsonl"),
        ("sitemap.xml.gz", "--sitemap URL"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_to_do(name, advice):
    with pytest.raises(InvalidSetting, match=advice):
        UrlFile(name)


def test_columns_of_a_text_file_are_refused():
    with pytest.raises(
        InvalidSetting,
        match=r"column and similar options are for tables; urls.txt is read as txt. Add:",
    ):
        UrlFile("urls.txt", columns=Columns(url="link"))


@pytest.mark.parametrize(
    ("format", "content"),
    [
        (None, "https://a.test/1\n"),
        ("csv", "url,n\nhttps://a.test/1,2\n"),
        ("jsonl", '{"url": "https://a.test/1"}\n'),
    ],
)
def test_standard_input_has_the_format_that_it_is_told(monkeypatch, format, content):
    buffer = io.BufferedReader(io.BytesIO(gzip.compress(content.encode(), mtime=0)))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
    (task,) = UrlFile("-", format=format)
    assert task.url == "https://a.test/1"

"""Lines of files: encodings, line endings, gzip, and endless lines."""

import gzip
import io
import sys
import tracemalloc
from types import SimpleNamespace

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.discover.files.lines import MAX_LINE, Lines, LongLine


def read(path, **options):
    return [line.rstrip("\n") for line in Lines(str(path), **options)]


@pytest.mark.parametrize(
    "content",
    [
        b"one\ntwo\n",
        b"one\ntwo",
        b"one\r\ntwo\r\n",
        b"one\rtwo\r",
        b"\xef\xbb\xbfone\ntwo\n",
        "one\r\ntwo\r\n".encode("utf-16"),
        "one\ntwo\n".encode("utf-16-le").join([b"\xff\xfe", b""]),
        gzip.compress(b"one\ntwo\n", mtime=0),
        gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n", mtime=0),
        gzip.compress("one\ntwo\n".encode("utf-16"), mtime=0),
    ],
)
def test_lines_are_the_same_whatever_their_ends_encoding_and_packing(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read(path) == ["one", "two"]


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"caf\xe9\n")
    assert read(path) == ["caf\ufffd"]
    assert read(path, encoding="latin-1") == ["café"]


def test_an_unknown_encoding_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    with pytest.raises(InvalidSetting, match="'utf-ate' is unknown; try utf-8 or latin-1"):
        read(path, encoding="utf-ate")


def test_the_place_is_the_last_line_or_the_first_of_a_record(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("one\ntwo\nthree\n")
    lines = Lines(str(path))
    stream = iter(lines)
    next(stream)
    next(stream)
    assert lines.where == f"{path}:2"
    lines.begin_record()
    next(stream)
    assert lines.where == f"{path}:3"


def test_a_line_that_is_too_long_is_passed_over_and_the_next_one_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_text(f"one\n{'x' * (MAX_LINE + 1)}\n{'y' * (MAX_LINE - 1)}\nlast\n")
    lines = list(Lines(str(path)))
    assert [isinstance(line, LongLine) for line in lines] == [False, True, False, False]
    assert lines[-1] == "last\n"


@pytest.mark.parametrize("extra", range(-2, 3))
def test_lines_around_the_limit_are_counted_right(tmp_path, extra):
    path = tmp_path / "file"
    path.write_text(f"{'x' * (MAX_LINE + extra)}\nlast")
    assert read(path)[1:] == ["last"]


def test_a_huge_line_is_not_held_in_memory(tmp_path):
    path = tmp_path / "bomb.gz"
    block = gzip.compress(bytes(16 << 20), 9, mtime=0)
    path.write_bytes(block * 4 + gzip.compress(b"\nlast\n", mtime=0))
    tracemalloc.start()
    lines = list(Lines(str(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines[1] == "last\n"
    assert peak < 16 << 20


def test_gzip_that_breaks_off_names_the_line_it_came_to(tmp_path):
    path = tmp_path / "urls.txt.gz"
    content = "".join(f"https://a.test/{number}\n" for number in range(100_000))
    path.write_bytes(gzip.compress(content.encode(), mtime=0)[:-5000])
    seen = []
    with pytest.raises(
        InvalidInput, match=r"urls.txt.gz: the gzip data is truncated after line [\d,]+\. "
    ) as error:
        seen.extend(Lines(str(path)))
    assert f"{len(seen):,}" in str(error.value)
    assert len(seen) > 50_000


def test_gzip_that_is_damaged_names_the_line_it_came_to(tmp_path):
    path = tmp_path / "urls.txt.gz"
    packed = bytearray(gzip.compress(b"one\n" * 100_000, mtime=0))
    packed[-8] ^= 1  # its checksum
    path.write_bytes(packed)
    with pytest.raises(InvalidInput, match="the gzip data is damaged after line"):
        list(Lines(str(path)))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidSetting, match=r"missing.txt cannot be read: No such file"):
        read(tmp_path / "missing.txt")
    with pytest.raises(InvalidSetting, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_standard_input_is_read_and_stays_open(monkeypatch):
    buffer = io.BufferedReader(io.BytesIO(gzip.compress(b"one\ntwo\n", mtime=0)))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
    lines = Lines("-")
    assert list(lines) == ["one\n", "two\n"]
    assert lines.where == "stdin:2"
    assert not buffer.closed

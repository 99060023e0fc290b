"""Files that appear only when complete, and files that are appended to."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from shoal.core.errors import ExportFailed
from shoal.export.open import open_writer
from tests.unit.export.factories import items

SUFFIXES = ["jsonl", "jsonl.gz", "csv", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_has_the_final_name_until_the_writer_is_closed(tmp_path, suffix):
    path = tmp_path / f"items.{suffix}"
    path.write_text("what was there before")
    writer = open_writer(path)
    writer.write(items({"name": "lamp"}))
    assert path.read_text() == "what was there before"
    writer.close()
    assert list(tmp_path.iterdir()) == [path]
    assert b"what was there" not in path.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_keeps_the_existing_file_and_leaves_no_other(tmp_path, suffix):
    path = tmp_path / f"items.{suffix}"
    path.write_text("what was there before")
    with pytest.raises(KeyboardInterrupt), open_writer(path) as writer:
        writer.write(items({"name": "lamp"}))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "what was there before"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_items_give_an_empty_readable_file(tmp_path, suffix):
    path = tmp_path / f"items.{suffix}"
    open_writer(path).close()
    assert path.exists()


def test_what_a_killed_export_left_is_removed_by_the_next_one_to_the_same_file(tmp_path, caplog):
    path = tmp_path / "items.jsonl"
    left = tmp_path / ".items.jsonl.0123456789ab.part"
    others = [tmp_path / name for name in (".items.csv.0123456789ab.part", ".items.jsonl.mine.part")]
    for file in (left, *others):
        file.write_text("half")
    running = open_writer(path)
    running.write(items({"name": "lamp"}))
    assert not left.exists() and caplog.messages == [
        f"{path}: removed a hidden file that an export which was killed had left"
    ]
    open_writer(path).close()  # while another process writes to the same place
    running.close()
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert "lamp" in path.read_text() and len(caplog.messages) == 1


def test_an_export_that_is_killed_leaves_a_file_that_the_next_one_removes(tmp_path, caplog):
    path = tmp_path / "items.csv"
    code = f"import os; from shoal.export.target import open_target; open_target({str(path)!r}, live=False); "
    killed = subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)"], check=False)
    assert killed.returncode == -9 and len(list(tmp_path.iterdir())) == 1
    open_writer(path).close()
    assert list(tmp_path.iterdir()) == [path] and len(caplog.messages) == 1


def test_a_new_file_has_the_default_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        open_writer(tmp_path / "items.jsonl").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "items.jsonl").stat().st_mode) == 0o640


def test_the_target_of_a_symbolic_link_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "items.jsonl"
    link.symlink_to(tmp_path / "far" / "real.jsonl")
    with open_writer(link) as writer:
        writer.write(items(1))
    assert link.is_symlink()
    assert (tmp_path / "far" / "real.jsonl").read_text() == "1\n"


def test_a_name_of_maximum_length_is_written(tmp_path):
    path = tmp_path / f"{'ä' * 120}.jsonl"
    open_writer(path).close()
    assert path.exists()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "items.jsonl"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    with open_writer(path) as writer:
        writer.write(items({"n": 1}))
    reader.join(10)
    assert read == ['{"n":1}\n']
    assert path.is_fifo()


@pytest.mark.parametrize("format", SUFFIXES)
def test_a_full_disk_is_reported_with_the_file_and_what_to_do(format):
    with (
        pytest.raises(ExportFailed, match=r"/dev/full could not be written: No space left.*Free disk space"),
        open_writer("/dev/full", format=format) as writer,
    ):
        writer.write(items({"name": "x" * 1_000_000}))


def test_a_live_file_can_be_read_while_it_grows(tmp_path):
    path = tmp_path / "items.jsonl"
    with open_writer(path, live=True) as writer:
        writer.write(items({"n": 1}))
        assert path.read_text() == '{"n":1}\n'
        writer.write(items({"n": 2}))
    assert path.read_text() == '{"n":1}\n{"n":2}\n'


def test_a_live_file_can_be_overwritten(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"n":0}\n')
    with open_writer(path, live=True, overwrite=True) as writer:
        writer.write(items({"n": 1}))
    assert path.read_text() == '{"n":1}\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"n":0}\n', '{"n":0}\n'),
        ('{"n":0}', '{"n":0}\n'),
        ('{"n":0}\n{"torn":"x', '{"n":0}\n'),
        ('{"torn":"' + "x" * 200_000, ""),
        ('{"n":0}\n{"torn":"' + "x" * 200_000, '{"n":0}\n'),
        ("", ""),
    ],
    ids=["complete", "no newline", "partial", "only a partial line", "a long partial line", "empty"],
)
def test_a_live_file_continues_after_its_last_complete_line(tmp_path, before, after):
    path = tmp_path / "items.jsonl"
    path.write_text(before)
    with open_writer(path, live=True) as writer:
        writer.write(items({"n": 1}))
    assert path.read_text() == after + '{"n":1}\n'


def test_lines_go_to_stdout(capfdbinary):
    with open_writer("-") as writer:
        writer.write(items({"n": 1}))
    assert capfdbinary.readouterr().out == b'{"n":1}\n'


def test_an_append_to_a_file_that_was_emptied_meanwhile_is_undone_without_filling_it(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"a":1}\n' * 9)
    with pytest.raises(ExportFailed, match="shortened"), open_writer(path, existing="append") as writer:
        path.write_text("")
        writer.write(items({"name": "lamp"}))
    assert b"\0" not in path.read_bytes()

"""A full disk is named, with what to do: of the queue, of the items and of the logs."""

import errno
import re
from pathlib import Path

import apsw

from shoal.core.errors import ExportFailed
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.telemetry.logs import LogFile
from shoal.queue.outages import describe_disk
from shoal.queue.sqlite.errors import translate_error

DISK = r"the file system /\S* \(\d+ [KMGT]?B of [\d.]+ [KMGT]?B free\)"


def test_a_file_system_is_named_with_its_free_space_also_for_a_file_that_does_not_exist(tmp_path):
    assert re.fullmatch(DISK, describe_disk(tmp_path / "no" / "file"))


def test_a_full_disk_of_the_queue_is_named_and_no_purge_is_advised(tmp_path):
    for error in (apsw.FullError("full"), OSError(errno.ENOSPC, "No space left on device")):
        words = str(translate_error(error, tmp_path / "shoal.db"))
        assert re.search(DISK, words) and "a purge needs space too" in words
        assert "Workers that wait for it then continue by themselves" in words


def test_items_that_found_no_room_have_a_command_that_writes_them_later(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed = ExportFailed("items.jsonl", "No space left on device", "Free disk space")
    failed.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    told = str(ResultWriter(None, "r1", "my items.jsonl").with_command(failed, "sqlite:///other.db"))
    assert re.search(DISK, told)
    command = "shoal export r1 --to 'my items.jsonl' --overwrite --queue sqlite:///other.db"
    assert told.endswith(f"The items are safe in the queue. Make room, then run: {command}")


def test_reservation_lines_of_a_log_are_said_once_and_counted(caplog, tmp_path, monkeypatch):
    file = LogFile(tmp_path / "worker-1.log", max_bytes=1_000, keep=1)
    file.write("first")

    class Full:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    whole, file._file = file._file, Full()
    for _ in range(3):
        file.write("lost")
    file._file = whole
    file.write("last")
    file.close()
    first, second = caplog.messages
    assert re.search(DISK, first) and "lines are lost until it can" in first
    assert second == f"{tmp_path / 'worker-1.log'} is written again; 3 lines lost."
    assert Path(tmp_path / "worker-1.log").read_text() == "first\nlast\n"

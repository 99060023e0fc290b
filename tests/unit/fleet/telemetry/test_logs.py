"""Log files are bounded, safe to read in a terminal, and hold no secret."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.events import Event, Level
from shoal.fleet.telemetry import logs
from shoal.fleet.telemetry.logs import (
    LogDirectory,
    LogFile,
    LogFolder,
    LogFormat,
    LogPlan,
    LogStream,
    Stream,
    as_json,
    as_text,
    read_log_target,
)


def event(**fields):
    return Event(at=1_770_000_000.5, level=Level.WARNING, name="task failed", fields=fields)


def test_the_next_launch_appends_to_the_file(tmp_path):
    for number in range(2):
        file = LogFile(tmp_path / "w.log", max_bytes=100, keep=2)
        file.write(str(number))
        file.close()
    assert (tmp_path / "w.log").read_text() == "0\n1\n"


def test_no_old_file_is_kept_with_keep_zero(tmp_path):
    file = LogFile(tmp_path / "w.log", max_bytes=10, keep=0)
    for number in range(9):
        file.write(f"line {number}")
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["w.log"]


def test_a_full_disk_loses_lines_but_does_not_stop_the_run():
    file = LogFile(Path("/dev/full"), max_bytes=1_000, keep=1)
    file.write("lost")
    assert file.error is not None
    file.close()


def test_two_launchers_do_not_write_into_one_file(tmp_path):
    first, second = LogFolder(tmp_path / "logs"), LogFolder(tmp_path / "logs")
    assert (first.path, second.path) == (tmp_path / "logs", tmp_path / "logs" / "2")
    first.close()
    third = LogFolder(tmp_path / "logs")
    assert third.path == tmp_path / "logs"
    second.close()
    third.close()


def test_a_launcher_that_was_killed_leaves_its_folder_to_others(tmp_path):
    imports = "import os; from pathlib import Path; from shoal.fleet.telemetry.logs import LogFolder"
    program = f"{imports}; LogFolder(Path({str(tmp_path)!r})); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program], check=False)
    assert (tmp_path / ".lock").exists()
    folder = LogFolder(tmp_path)
    assert folder.path == tmp_path
    folder.close()


def test_a_line_of_json_has_a_constant_event_and_fields():
    line = json.loads(as_json(event(run="r", worker="w", task="t", attempt=2)))
    assert line == {
        "at": "2026-02-02T02:40:00.500Z",
        "level": "warning",
        "event": "task failed",
        "run": "r",
        "worker": "w",
        "task": "t",
        "attempt": 2,
    }


def test_a_field_cannot_take_the_place_of_the_event():
    assert json.loads(as_json(event(event="forged", level="info")))["event"] == "task failed"


@pytest.mark.parametrize("render", [as_json, as_text])
def test_page_content_stays_on_its_line_and_moves_no_cursor(render):
    line = render(event(message='a\nb\r\x1b[2J\x9b31m "quoted" \u202e'))
    assert "\n" not in line and "\r" not in line and "\x1b" not in line
    if render is as_text:
        assert line.isprintable()


def test_a_line_for_people_quotes_what_has_spaces():
    line = as_text(event(task="t1", message="too slow", count=3))
    assert line == '2026-02-02T02:40:00.500Z warning task failed task=t1 message="too slow" count=3'


def test_secrets_are_hidden_in_every_field_however_deep(tmp_path):
    plan = LogPlan(folder=tmp_path, format=LogFormat.JSON)
    with LogDirectory(plan, secrets=["c4nary1"]) as logs:
        log_writer = logs.worker(1)
        log_writer.write(event(a="c4nary1", b=["https://u:c4nary2@h/"], c={"d": "password=c4nary3"}), run="r")
        log_writer.log_output("Cookie: sid=c4nary4")
    text = (tmp_path / "worker-1.log").read_text()
    assert "c4nary" not in text
    assert [json.loads(line)["event"] for line in text.splitlines()] == ["task failed", "stdout"]


def test_events_below_the_level_are_not_written(tmp_path):
    with LogDirectory(LogPlan(folder=tmp_path, level=Level.ERROR)) as logs:
        logs.fleet.write(event())
        logs.fleet.log(Level.ERROR, "worker died")
    assert (tmp_path / "fleet.log").read_text().count("\n") == 1


def test_a_dash_is_stdout_and_everything_else_a_folder():
    assert read_log_target("-") is Stream.STDOUT
    assert read_log_target("logs") == Path("logs")
    plan = LogPlan(folder=Stream.STDOUT)
    assert plan.within("books") is plan
    assert plan.off_stdout().folder is Stream.STDERR
    assert LogPlan(folder=Path("logs")).within("books").folder == Path("logs/books")


def test_all_logs_are_written_to_one_stream(capfd):
    with LogDirectory(LogPlan(folder=Stream.STDOUT, format=LogFormat.JSON), secrets=["s3cret"]) as logs:
        logs.fleet.log(Level.INFO, "run begun", run="r")
        logs.worker(1).log(Level.INFO, "task done", said="s3cret")
        logs.worker(2).log(Level.DEBUG, "nothing")
    out, err = capfd.readouterr()
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["run begun", "task done"]
    assert "s3cret" not in out and err == ""


def test_a_program_may_have_replaced_stdout_by_something_that_is_no_file(capsys):
    LogStream(Stream.STDERR).write("a line")
    assert capsys.readouterr().err == "a line\n"


@pytest.fixture
def pipe():
    """The two ends of a pipe."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file, os.fdopen(reading, "rb") as reader:
        yield reader, file


def stream_into(file, monkeypatch):
    """Return a stream that takes this file for stdout."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", file)
        return LogStream(Stream.STDOUT)


def test_a_slow_reader_loses_lines_and_does_not_block_the_writer(pipe, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BUFFERED", 100_000)
    reader, file = pipe
    stream = stream_into(file, monkeypatch)
    for number in range(3_000):
        stream.write(f"{number:04} {'x' * 95}")  # 101 bytes each; the pipe takes some
    stream.close(timeout=0.01)
    taken = bytearray()
    while b"missing" not in taken:
        taken += os.read(reader.fileno(), 65536)
    stream.write("late")
    assert reader.readline() == b"late\n"
    *early, gap = taken.decode().splitlines()
    assert [int(line[:4]) for line in early] == list(range(len(early))) and 900 < len(early) < 3_000
    assert gap == f"({3_000 - len(early)} lines are missing here: their reader was too slow)"


def test_a_terminal_that_takes_nothing_does_not_block_the_writer(monkeypatch):
    master, terminal = os.openpty()
    with os.fdopen(master, "rb", 0) as reader, os.fdopen(terminal, "w") as file:
        stream = stream_into(file, monkeypatch)
        for number in range(4_000):
            stream.write(f"{number:04} {'x' * 31}")
        taken = b""
        while taken.count(b"\n") < 4_000:
            taken += reader.read(65536)
    assert [int(line[:4]) for line in taken.splitlines()] == list(range(4_000))


def test_a_line_longer_than_the_pipe_is_written_whole(pipe, monkeypatch):
    reader, file = pipe
    stream_into(file, monkeypatch).write("y" * 100_000)
    assert reader.readline() == b"y" * 100_000 + b"\n"


def test_a_closed_reader_loses_lines_but_does_not_stop_the_run(pipe, monkeypatch):
    reader, file = pipe
    stream = stream_into(file, monkeypatch)
    reader.close()
    for _ in range(3):
        stream.write("nobody hears this")
    stream.close()


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/null", __file__])
def test_a_file_as_log_folder_is_refused_at_the_start_with_what_to_type(place):
    with pytest.raises(InvalidSetting, match=r"must be a folder.* write --log-dir - for stdout"):
        LogPlan(folder=Path(place)).check()


def test_a_traceback_is_below_its_line_in_text_and_a_field_in_json():
    fields = {"error": "KeyError", "traceback": '  File "books.py", line 7\n\x1b[31mKeyError'}
    event = Event(at=0.0, level=Level.WARNING, name="task failed", fields=fields)
    line, *below = as_text(event).split("\n")
    assert line.endswith("task failed error=KeyError")
    assert below == ['      File "books.py", line 7', "    \ufffd[31mKeyError"]
    assert json.loads(as_json(event))["traceback"] == fields["traceback"]

"""A command ends without taking the interpreter apart, and nothing is lost by that."""

import subprocess
import sys

import pytest

BEGINS = "import atexit, gc, sys, threading\nfrom shoal.__main__ import end_process\ngc.freeze()\n"


def ended(code, *words):
    """Run code in a process of its own that ends by `end_process`, and return how it ended."""
    command = [sys.executable, "-c", BEGINS + code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_was_registered_is_called_when_all_threads_have_ended():
    code = (
        "atexit.register(print, 'registered')\n"
        "threading.Timer(0.05, print, ['thread']).start()\n"
        "end_process(3)\n"
        "print('not ended')"
    )
    found = ended(code)
    assert (found.returncode, found.stdout, found.stderr) == (3, "thread\nregistered\n", "")


@pytest.mark.parametrize(
    ("opened", "reads"),
    [
        ("open(sys.argv[1], 'w')", lambda file: file.read_text()),
        ("__import__('gzip').open(sys.argv[1], 'wt')", lambda file: read_gzip(file)),
    ],
)
def test_a_file_that_the_users_code_left_open_is_written(tmp_path, opened, reads):
    file = tmp_path / "notes.txt"
    found = ended(f"notes = {opened}\nnotes.write('seen')\nend_process(0)", file)
    assert (found.returncode, found.stderr) == (0, "")
    assert reads(file) == "seen"


def read_gzip(file):
    import gzip

    with gzip.open(file, "rt") as lines:
        return lines.read()


def test_the_interpreter_reports_output_that_cannot_be_written():
    code = "sys.stdout = open('/dev/full', 'w')\nprint('lost')\nend_process(0)"
    found = ended(code)
    assert found.returncode == 120
    assert "No space left on device" in found.stderr

"""A run of the tests names what failed, what hung and what was skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests import reporting
reporting.GRACE = 1.0
def pytest_configure(config):
    config.pluginmanager.register(reporting.TestReporting())
"""


@pytest.fixture
def run(tmp_path):
    def run(source, *options):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_made.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1"]
        told = subprocess.run(
            [*command, f"--rootdir={tmp_path}", *options, tmp_path],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return told.stdout

    return run


def test_a_failure_that_pytest_cannot_format_is_named_with_its_error(run):
    told = run("""
import ast
def test_of_a_bug_in_the_parser(monkeypatch):
    def fail(*args, **kwargs):
        raise SystemError("AST constructor recursion depth mismatch")
    monkeypatch.setattr(ast, "parse", fail)
    assert 1 == 2
def test_after_it(): pass
""")
    assert (
        "FAILED" in told and "test_of_a_bug_in_the_parser" in told and "AssertionError: assert 1 == 2" in told
    )
    assert "1 failed, 1 passed" in told


def test_a_test_that_hangs_fails_by_name(run):
    told = run("""
import threading
def test_that_hangs(): threading.Event().wait()
def test_after_it(): pass
""")
    assert "test_that_hangs" in told
    assert "1 failed, 1 passed" in told


@pytest.mark.long
def test_a_test_that_cannot_be_interrupted_is_named_and_the_others_go_on(run):
    told = run(
        """
import threading
def test_that_never_ends():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass
def test_after_it(): pass
""",
        "-n1",
    )
    assert "crashed while running 'test_made.py::test_that_never_ends'" in told
    assert "1 failed, 1 passed" in told


def test_the_last_line_says_what_was_skipped_and_why(run):
    told = run("""
import pytest
@pytest.mark.parametrize("number", range(3))
def test_with_a_program(number): pytest.skip("tor is not installed. Run: tools/servers.sh tor")
""")
    assert told.splitlines()[-1] == "Skipped: 3 because tor is not installed. Run: tools/servers.sh tor"

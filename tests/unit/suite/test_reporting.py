"""A run of the tests names what failed, what hung and what was skipped."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Each test starts a pytest, and shows nothing about Shoal itself.
pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests import reporting
reporting.GRACE = 1.0
def pytest_configure(config):
    config.pluginmanager.register(reporting.TestReporting())
"""


@pytest.fixture
def run_pytest(tmp_path):
    """Runs the tests of a text in a process of their own, and returns what that prints."""

    def run(source, *options, name="test_made.py"):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / name).write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "pytest_timeout", "-p", "xdist.plugin", "-o", "timeout=1"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        # To import the other plugins of this project takes longer than to run these tests.
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        told = subprocess.run(
            [*command, f"--rootdir={tmp_path}", *options, tmp_path],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return told.stdout + (told.stderr if told.returncode == 4 else "")

    return run


def test_a_test_that_cannot_be_interrupted_or_ends_its_process_is_named_and_the_others_go_on(run_pytest):
    told = run_pytest(
        """
import threading
def test_that_never_ends():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass
def test_that_dies():
    import os
    os._exit(0)
def test_after_it(): pass
""",
        "-n2",
        "--dist=worksteal",
    )
    assert re.search("worker 'gw.' crashed while running '.*::test_that_never_ends'", told)
    assert re.search("worker 'gw.' crashed while running '.*::test_that_dies'", told)
    assert "2 failed, 1 passed" in told


def test_the_last_line_says_what_was_skipped_and_why(run_pytest):
    told = run_pytest("""
import pytest
@pytest.mark.parametrize("number", range(3))
def test_with_a_program(number): pytest.skip("tor is not installed. Run: tools/servers.sh tor")
""")
    assert told.splitlines()[-1] == "Skipped: 3 because tor is not installed. Run: tools/servers.sh tor"

"""A pytest of its own for tests that a test writes down."""

import os
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

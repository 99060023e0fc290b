"""`make check RETRIES=5` runs a few failed tests once more by themselves, and names those that pass then."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # each starts pytest, some of them twice
SCRIPT = Path(__file__).parents[3] / "tools" / "retry.sh"
TESTS = """
import os, pytest
def passes_alone():
    first = not os.path.exists("seen")
    open("seen", "w").close()
    return not first
def test_steady(): pass
def test_unsteady(): assert passes_alone()
@pytest.mark.parametrize("number", range(int(os.environ.get("BROKEN", 0))))
def test_broken(number): assert False
"""


@pytest.fixture
def retried(tmp_path, monkeypatch):
    """Runs the script on these tests, and returns its exit code, what it prints, and the unsteady tests."""

    def run(broken):
        (tmp_path / "test_some.py").write_text(TESTS)
        monkeypatch.setenv("BROKEN", str(broken))
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer to load
        command = [SCRIPT, "2", sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-q", "test_some.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        file = tmp_path / "build" / "unsteady.txt"
        return done.returncode, done.stdout, file.read_text().split() if file.exists() else []

    return run


@pytest.mark.parametrize(
    ("broken", "code", "unsteady"),
    [(0, 0, ["test_some.py::test_unsteady"]), (1, 1, []), (2, 1, [])],
    ids=["what passes by itself is named", "a second failure is final", "so are more than may be retried"],
)
def test_failed_tests_run_once_more_by_themselves(retried, broken, code, unsteady):
    assert (found := retried(broken))[::2] == (code, unsteady)
    assert ("failed; running them once more" in found[1]) == (broken < 2)
    assert not unsteady or found[1].splitlines()[-1] == f"  {unsteady[0]}"

"""A test that fails once is named and passes by itself; one that fails twice, or too many, fail the run."""

import pytest

from tools import retried

pytestmark = pytest.mark.long  # each starts pytest, some of them twice

ONCE = """
from pathlib import Path

def test_steady():
    pass

def test_once[N]():
    seen = Path("seen[N]")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
"""
ALWAYS = "def test_always():\n    raise AssertionError\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # These tests need no plugins, and to import those of this project takes longer than to run them.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*codes):
        for number, code in enumerate(codes):
            (tmp_path / f"test_{number}.py").write_text(code.replace("[N]", str(number)))
        return retried.main(2, ["-q"])

    return run


def test_a_test_that_passes_by_itself_is_named_as_unsteady(run, capfd):
    assert run(ONCE) == 0
    assert retried.UNSTEADY.read_text() == "test_0.py::test_once0\n"
    assert "passed by themselves:\n  test_0.py::test_once0" in capfd.readouterr().out


def test_a_second_failure_is_final(run):
    assert run(ONCE, ALWAYS) == 1
    assert not retried.UNSTEADY.exists()


def test_many_failures_are_not_run_again(run, tmp_path):
    assert run(ONCE, ONCE, ONCE) == 1
    assert not retried.UNSTEADY.exists() and len(list(tmp_path.glob("seen*"))) == 3
    assert retried.main(2, ["-q"]) == 0  # they would have passed


def test_a_run_that_pytest_cannot_start_keeps_its_exit_code(run):
    assert retried.main(2, ["--no-such-option"]) == 4

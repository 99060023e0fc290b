"""Tests that run in forked processes are reported as if they ran in one."""

import re
from pathlib import Path

import pytest

from tests.parallel import share_out

# Each test starts a pytest, and shows nothing about Shoal itself.
pytestmark = pytest.mark.long

MIXED = """
import os, signal, tempfile
import pytest
@pytest.mark.parametrize("number", range(40))
def test_that_passes(number, tmp_path): (tmp_path / "file").write_text("x")
@pytest.fixture(scope="session")
def resource():
    yield
    open(os.environ["CLOSED"], "a").write("closed ")
@pytest.mark.parametrize("number", range(8))
def test_with_a_resource(number, resource): pass
def test_that_fails():
    print("seen before it failed")
    assert 1 == 2
def test_that_is_skipped(): pytest.skip("tor is not installed")
"""


def test_every_test_runs_once_and_resources_are_closed(run_pytest, tmp_path, monkeypatch):
    monkeypatch.setenv("CLOSED", str(tmp_path / "closed.txt"))
    told = run_pytest(MIXED, "--jobs=3")
    assert "1 failed, 48 passed, 1 skipped" in told
    assert "seen before it failed" in told and "assert 1 == 2" in told
    assert (tmp_path / "closed.txt").read_text().split() in [["closed"] * count for count in (1, 2, 3)]


def test_a_test_that_ends_its_process_is_named_and_the_others_go_on(run_pytest):
    told = run_pytest(
        """
import os, pytest, signal
@pytest.mark.parametrize("number", range(30))
def test_that_passes(number): pass
def test_that_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_that_leaves(): os._exit(0)
@pytest.mark.parametrize("number", range(30))
def test_after_them(number): pass
""",
        "--jobs=2",
    )
    assert "test_made.py::test_that_dies ended its process: -9" in told
    assert "test_made.py::test_that_leaves ended its process: 0" in told
    assert "2 failed, 60 passed" in told


def test_a_test_that_hangs_is_named_with_its_time_limit(run_pytest):
    told = run_pytest(
        """
import pytest, time
@pytest.mark.timeout(0.1)
def test_that_hangs(): time.sleep(60)
def test_that_passes(): pass
""",
        "--jobs=2",
    )
    assert "Failed: Timeout (>0.1s)" in told
    assert "1 failed, 1 passed" in told


def test_reports_keep_their_order(run_pytest):
    told = run_pytest(
        """
import pytest
@pytest.fixture
def broken():
    yield
    raise ValueError("when it is closed")
def test_whose_fixture_fails(broken): pass
def test_that_writes(record_property):
    record_property("size", 1)
    print("written")
@pytest.mark.xfail(reason="known")
def test_that_is_expected_to_fail(): assert False
""",
        "--jobs=1",
        "-rA",
    )
    # The last report of a test says whether it is run again: that it passed comes before the error.
    assert told.startswith(".E.x ")
    assert "written" in told and "known" in told


def test_it_stops_after_the_first_failure_where_that_is_asked_for(run_pytest):
    told = run_pytest(
        """
import pytest, time
@pytest.mark.parametrize("number", range(500))
def test_that_fails(number):
    time.sleep(0.02)  # so that the process that reads the results gets its turn on a busy machine
    assert False
""",
        "--jobs=2",
        "-x",
    )
    assert re.search(r"stopping after [12] failures", told)  # the other process may have been in one
    assert "500 failed" not in told


def test_slow_tests_leave_the_rest_of_their_share_to_others(run_pytest):
    told = run_pytest(
        """
import pytest, time
@pytest.mark.parametrize("number", range(40))
def test_of_a_share(number, tmp_path_factory, request):
    if number == 0:
        folder = tmp_path_factory.getbasetemp().parent
        while len(list(folder.glob("process-*/done-*"))) < 38:
            time.sleep(0.01)
    else:
        (tmp_path_factory.getbasetemp() / f"done-{number}").touch()
""",
        "--jobs=2",
        "-o",
        "timeout=20",
    )
    assert "40 passed" in told


class Item:
    """Stands for a test of a file."""

    def __init__(self, folder, limit=None, file="test_made.py"):
        self.path = Path("tests") / folder / file
        self._limit = limit

    def get_closest_marker(self, name):
        return pytest.mark.timeout(self._limit).mark if self._limit else None


def test_slow_tests_come_first_and_those_of_a_costly_server_stay_together():
    items = [Item("tor"), *(Item("engine") for _ in range(20)), Item("examples", 900), Item("tor")]
    shares = share_out(items, 3)
    assert sorted(number for share in shares for number in share) == list(range(len(items)))
    assert shares[0][0] == 21
    assert [list(share)[:2] for share in shares if 0 in share] == [[0, 22]]


def test_those_of_a_file_that_fills_a_database_stay_together_though_they_are_slow():
    slow = [Item("postgres", 600, "test_claim_cost.py") for _ in range(3)]
    shares = share_out([*slow, *(Item("engine") for _ in range(20))], 3)
    assert [list(share)[:3] for share in shares if 0 in share] == [[0, 1, 2]]

"""A run of the tests names what failed, what hung and what was skipped."""

import re

import pytest

# Each test starts a pytest, and shows nothing about Shoal itself.
pytestmark = pytest.mark.long


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

"""A mutation is applied once and undone; a list that does not fit the tree is refused before a test runs."""

import os

import pytest

from tools import mutations
from tools.mutations import Mutation, WrongList

TESTS = "tests/test_limit.py"


def mutation(**fields):
    told = {"name": "limit", "guarantee": "g", "harm": "h", "file": "code.py", "tests": [TESTS]}
    return Mutation(**{**told, "old": "if size > most:", "new": "if False:", **fields})


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / TESTS).write_text("")
    (tmp_path / "code.py").write_text("if size > most:\n    stop()\nif twice:\n    a()\nif twice:\n    b()\n")
    os.utime(tmp_path / "code.py", (1_000, 1_000))
    return tmp_path


def test_a_mutation_changes_its_place_and_is_undone_also_after_an_error(tree):
    file = tree / "code.py"
    before = file.read_text()
    with pytest.raises(ZeroDivisionError), mutations.mutated(tree, mutation()):
        assert file.read_text() == before.replace("if size > most:", "if False:")
        raise ZeroDivisionError
    assert file.read_text() == before
    # Else Python would go on with the compiled module of the mutation, if it has the same size.
    assert file.stat().st_mtime == 1_000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"old": "if twice:"}, "limit: `old` occurs 2 times in code.py"),
        ({"old": "if never:"}, "limit: `old` occurs 0 times in code.py"),
        ({"file": "gone.py"}, "limit: `old` occurs 0 times in gone.py"),
        ({"new": "if size > most:"}, "limit: `new` is the same"),
        ({"tests": ["tests/test_gone.py"]}, "limit: there is no tests/test_gone.py"),
    ],
)
def test_a_mutation_that_does_not_fit_the_tree_is_refused_and_changes_nothing(tree, fields, words):
    before = (tree / "code.py").read_text()
    with pytest.raises(WrongList, match=words), mutations.mutated(tree, mutation(**fields)):
        pass
    assert (tree / "code.py").read_text() == before


def test_every_mutation_of_the_list_fits_this_tree():
    mutations.check(mutations.ROOT, mutations.read_list())


def test_an_unknown_name_is_an_error_that_says_what_to_type(capsys):
    assert mutations.main(["--only", "nonsense"]) == 2
    assert "No mutation is called 'nonsense'. Run: make mutations ARGS=--list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        # The short tier notices, and the test passes without the mutation.
        ([(1, "...\nFAILED t.py::a[1-b c] - no"), (0, "")], {"tier": "short", "test": "t.py::a[1-b c]"}),
        # Only the long tier notices; the short one has no such test.
        ([(5, ""), (1, "FAILED t.py::b - no"), (0, "")], {"tier": "long", "test": "t.py::b"}),
        ([(0, ""), (0, "")], {}),
        ([(1, "FAILED t.py::a - no"), (1, "FAILED t.py::a - no")], {"trouble": "t.py::a fails without"}),
        ([(1, "ERROR t.py::a - no server")], {"trouble": "exit code 1"}),
        ([(2, "ERROR t.py - SyntaxError")], {"trouble": "exit code 2"}),
    ],
)
def test_a_mutation_is_noticed_by_a_test_that_passes_without_it(tree, monkeypatch, answers, finding):
    broken = []

    def run_tests(root, tier, tests, only=""):
        broken.append("if False:" in (root / "code.py").read_text())
        return answers[len(broken) - 1]

    monkeypatch.setattr(mutations, "run_tests", run_tests)
    found = mutations.try_one(tree, mutation())
    assert (found.tier, found.test) == (finding.get("tier", ""), finding.get("test", ""))
    assert found.trouble.startswith(finding.get("trouble", "")) and bool(found.trouble) == (
        "trouble" in finding
    )
    assert found.is_noticed == ("tier" in finding)
    assert len(broken) == len(answers)
    # All but the control, which follows the first failure.
    assert broken == [position == 0 or answers[position - 1][0] != 1 for position in range(len(answers))]
    assert "if size > most:" in (tree / "code.py").read_text()

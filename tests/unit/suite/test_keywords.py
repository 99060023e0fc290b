"""Which test files are read for `-k`."""

import pytest

from tests.keywords import KeywordFiles

FILES = {
    "queue/backends.py": "BACKENDS = ['sqlite', 'redis']",
    "queue/test_claim.py": "def test_one_is_claimed(store): pass",
    "queue/test_settle.py": "def test_one_is_settled(store): pass",
    "web/test_pages.py": "def test_a_Page_is_shown(): pass",
}


@pytest.fixture
def read_for(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def read(expression):
        files = KeywordFiles(expression, tmp_path)
        return {path.name for path in sorted(tmp_path.rglob("test_*.py")) if files.may_match(path)}

    return read


ALL = {"test_claim.py", "test_settle.py", "test_pages.py"}


@pytest.mark.parametrize(
    ("expression", "files"),
    [
        ("is_claimed", {"test_claim.py"}),
        ("IS_SHOWN", {"test_pages.py"}),
        ("claim or pages", {"test_claim.py", "test_pages.py"}),
        ("settle and redis", {"test_settle.py"}),
        ("(claim or settle) and shown", set()),
        ("web", {"test_pages.py"}),
        ("not claim", ALL),
        ("words3", ALL),
    ],
)
def test_a_file_that_cannot_have_a_match_is_not_read(read_for, expression, files):
    assert read_for(expression) == files


def test_a_word_of_a_module_beside_the_tests_may_name_their_cases(read_for):
    assert read_for("claimed and sqlite") == {"test_claim.py"}

"""The line of each key of a project file."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fleet.project.file import Project, line_of, toml_lines, yaml_lines

TOML = '''\
# queue = "no"
queue = "sqlite:///a.db"
logs.level = "info"
[ workers ]  # how many
count = 4
"concurrency" = 3
[scrapers."a-b"]
module = """
rate = 1
[workers]
"""
rate = "5/s"
[[routes]]
match = "*"
[storage]
results = "x"
'''


def test_the_lines_of_a_toml_file():
    assert toml_lines(TOML) == {
        "queue": 2,
        "logs.level": 3,
        "workers": 4,
        "workers.count": 5,
        "workers.concurrency": 6,
        "scrapers.a-b": 7,
        "scrapers.a-b.module": 8,
        "scrapers.a-b.rate": 12,
        "storage": 15,
        "storage.results": 16,
    }


def test_the_lines_of_a_yaml_file():
    assert yaml_lines("queue: x\nworkers:\n  count: 4\n") == {"queue": 1, "workers": 2, "workers.count": 3}
    assert yaml_lines("") == {}


def test_a_key_without_a_line_has_that_of_its_table():
    assert line_of("workers.count.deep", {"workers": 4}) == 4
    assert line_of("other", {"workers": 4}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("shoal.toml", "\n[workers]\ncount = 0"), ("shoal.yaml", "workers:\n\n  count: 0")],
)
def test_an_error_names_the_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidSetting, match=r"workers\.count .* \(line 3\)$"):
        Project.find(tmp_path)

"""The parser is imported at its first use."""

import subprocess
import sys

import pytest
import turbohtml

from shoal.scrape.parsing import html


def test_each_name_is_the_parsers_own():
    names = set(html.__all__) - {"detect"}
    assert {name: getattr(html, name) for name in names} == {name: getattr(turbohtml, name) for name in names}
    assert html.detect(b"caf\xe9").encoding


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'parse_all'"):
        html.parse_all  # noqa: B018


@pytest.mark.parametrize(
    "use",
    [
        r"""from shoal.scrape.parsing.charset import read_text
print(read_text(b"\xff\xfea\x00")[0])""",
        """from shoal import Page
from shoal.core.http import Headers, Response
from shoal.core.model import Task
page = Page(Response(url="http://a/", status=200, headers=Headers([]), body=b"<p>a</p>"), Task(url="http://a/"))
print(page.text("p"))""",
    ],
    ids=["a codec", "a selector"],
)
def test_its_first_use_imports_it(use):
    looks = "import sys, shoal.scrape.page\nprint('turbohtml' in sys.modules)\n"
    told = subprocess.run([sys.executable, "-c", looks + use], capture_output=True, text=True, check=True)
    assert told.stdout == "False\na\n"

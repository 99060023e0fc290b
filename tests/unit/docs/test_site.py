"""The site of the documentation loads nothing from elsewhere, and what would is noticed."""

import sys
import tomllib

import pytest

from tests.unit.docs.pages import DOCS, ROOT
from tools import check_site


@pytest.mark.parametrize(
    ("page", "loads"),
    [
        ("<script src='https://cdn.test/a.js'></script>", ["https://cdn.test/a.js"]),
        ("<link rel=stylesheet href='//fonts.test/a.css'>", ["//fonts.test/a.css"]),
        ("<link rel=preconnect href='https://fonts.test'>", ["https://fonts.test"]),
        ("<img src=a.png srcset='b.png 1x, https://img.test/c.png 2x'>", ["https://img.test/c.png"]),
        ("<p style=\"background: url('https://img.test/d.png')\">", ["https://img.test/d.png"]),
        ("<style>@import 'https://fonts.test/e.css';</style>", ["https://fonts.test/e.css"]),
        ("<a href='https://example.com'>a link</a><link rel=canonical href='https://example.com'>", []),
        ("<script src='_static/a.js'></script><img src='data:image/png;base64,AA'>", []),
        ("<code>url(https://example.com)</code>", []),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(page, loads):
    assert check_site.from_elsewhere(page, ".html") == loads


@pytest.mark.parametrize(("body", "code"), [("<p>all is here", 0), ("<img src=//img.test/a.png>", 1)])
def test_the_check_names_the_page_and_fails(body, code, tmp_path, monkeypatch, capsys):
    (tmp_path / "index.html").write_text(body)
    monkeypatch.setattr(sys, "argv", ["check_site", str(tmp_path)])
    assert check_site.main() == code
    assert ("index.html loads //img.test/a.png" in capsys.readouterr().err) == bool(code)


def test_a_folder_without_a_site_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check_site", str(tmp_path)])
    assert check_site.main() == 1
    assert "Run: make docs" in capsys.readouterr().err


def test_what_builds_the_site_is_pinned():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pins = (ROOT / "constraints" / "pins.txt").read_text()
    assert all(f"\n{name.partition('>')[0]}==" in pins for name in extra)


def test_the_styles_of_our_own_load_nothing():
    styles = sorted((DOCS / "_static").rglob("*.css"))
    assert styles
    assert [check_site.from_elsewhere(style.read_text(), ".css") for style in styles] == [[]] * len(styles)

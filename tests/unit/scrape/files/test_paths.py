"""The names of downloaded files: from hostile URLs and templates, always inside their folder."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.scrape.files import (
    DEFAULT_PATH,
    MAX_PATH,
    MAX_SEGMENT,
    check_template,
    extension_of,
    name_of,
    render_path,
    with_suffix,
)

FIELDS = {"sha256": "ab" * 32, "ext": ".jpg", "name": "logo", "host": "127.0.0.1:8000", "run": "r1"}


@pytest.mark.parametrize(
    ("template", "path"),
    [
        (DEFAULT_PATH, "ab" * 32 + ".jpg"),
        ("{sha256:.2}/{name}{ext}", "ab/logo.jpg"),
        ("{host}/{run}/{name}{ext}", "127.0.0.1_8000/r1/logo.jpg"),
        ("../../etc/{name}", "etc/logo"),
        ("/etc/passwd", "etc/passwd"),
        ("a/./../b//c", "a/b/c"),
        (".incomplete/x.part", "incomplete/x.part"),
        ("a\0b\nc\x1b[2J", "a_b_c_[2J"),
        ("C:\\x", "C__x"),
        ("con.txt", "_con.txt"),
        ("..", "file"),
        ("{not a field}", "{not a field}"),
    ],
)
def test_a_path_is_made_of_safe_names(template, path):
    assert render_path(template, FIELDS) == path


def test_a_slash_in_a_field_is_no_folder():
    assert render_path("{name}{ext}", FIELDS | {"name": "../../etc/passwd"}) == "_.._etc_passwd.jpg"


@given(st.text(), st.text(max_size=3000))
def test_whatever_a_page_says_the_path_stays_in_its_folder(template, name):
    path = render_path(template or "x", FIELDS | {"name": name})
    parts = PurePosixPath(path).parts
    assert parts and not path.startswith("/") and ".." not in parts and path.isprintable()
    assert len(path.encode()) <= MAX_PATH and all(len(part.encode()) <= MAX_SEGMENT for part in parts)
    assert not any(part.startswith(".") for part in parts)


def test_a_long_name_keeps_its_extension():
    assert render_path("{name}{ext}", FIELDS | {"name": "ä" * 500}).endswith("ä.jpg")


@pytest.mark.parametrize(
    ("url", "kind", "extension"),
    [
        ("https://a.example/x.jpeg", "image/jpeg", ".jpeg"),
        ("https://a.example/x", "image/jpeg", ".jpg"),
        ("https://a.example/x.php?i=1", "image/png", ".png"),
        ("https://a.example/x.webp", "", ".webp"),
        ("https://a.example/x.tar.gz", "application/octet-stream", ".gz"),
        ("https://a.example/x.%2e%2e", "", ""),
        ("https://a.example/", "x/unknown", ""),
        ("https://a.example/x.php", "image/x-foo", ""),  # which types="image/*" accepts
        ("https://a.example/x.png", "image/x-foo", ".png"),
        ("https://a.example/x.foo", "application/x-foo", ".foo"),
    ],
)
def test_the_extension_is_that_of_the_type_else_of_the_url(url, kind, extension):
    assert extension_of(url, kind) == extension


def test_the_name_is_the_last_part_of_the_url():
    assert name_of("https://a.example/b/My%20Report.pdf?x=1") == "My Report"
    assert name_of("https://a.example/b/") == ""


def test_a_field_that_does_not_exist_is_named():
    with pytest.raises(InvalidInput, match=r"no field \{sha265\}. Known are \{sha256\}"):
        check_template("{sha265}{ext}")


def test_a_suffix_goes_before_the_extension():
    assert with_suffix("a/b.tar.gz", "12") == "a/b.tar-12.gz"
    assert with_suffix("a.b/c", "12") == "a.b/c-12"

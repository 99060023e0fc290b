"""Refusals and how their text is shown."""

import pytest

from shoal.core.errors import InvalidUrl
from shoal.discover.source import MAX_SHOWN, check_url, make_refusal, shown


@pytest.mark.parametrize(
    "text",
    [
        '{"url": "https://me:secret@a.test/", "priority": 99}',
        "https://me:secret@a.test/\tx",
        "https://me:secret@a.test/" + "x" * 10_000,
        "x" * 190 + "https://me:secret@a.test/",
    ],
)
def test_no_password_is_shown(text):
    assert "secret" not in shown(text)
    with pytest.raises(InvalidUrl) as error:
        check_url(text)
    assert "secret" not in str(make_refusal("here", text, error.value))


def test_a_long_text_is_shown_in_part():
    assert len(shown("x" * 100_000)) == MAX_SHOWN


def test_what_cannot_be_printed_is_replaced():
    assert shown("a\x1b[2J\u202eb\ud800") == "a\ufffd[2J\ufffdb\ufffd"


def test_a_good_url_comes_back_in_its_canonical_form():
    assert check_url("HTTPS://A.test/my file#top") == "https://a.test/my%20file"

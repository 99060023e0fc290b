"""Secrets are hidden anywhere in a text, and nothing else is."""

import time

import pytest

from shoal.core.redact import MAX_TEXT, bare_url, redacted, redactor, shown_url

CANARY = "c4nary"

SECRETS = [
    f"postgresql://user:{CANARY}@db/shoal",
    f"redis://:{CANARY}@cache:6379/0",
    f"https://{CANARY}@example.com/",
    f"https://user:a/{CANARY}@example.com/",
    f"https://user:a@{CANARY}@example.com/",
    f"amqp://u:p@mq/v?state=redis://:{CANARY}@cache",
    f"https://example.com/?token={CANARY}",
    f"https://example.com/?{CANARY}",
    f"https://example.com/#access={CANARY}",
    f"Authorization: Bearer {CANARY}",
    f"authorization={CANARY}",
    f"{{'Authorization': 'Basic {CANARY}', 'Accept': '*/*'}}",
    f'{{"Cookie": "sid={CANARY}; a=b"}}',
    f"Set-Cookie: sid={CANARY}; Path=/",
    f"Proxy-Authorization: Digest {CANARY}",
    f"X-Api-Key: {CANARY}",
    f"sent Bearer {CANARY}0123456789",
    f"password={CANARY}",
    f"DB_PASSWORD={CANARY}",
    f"api_key: {CANARY}",
    f'{{"access_token": "{CANARY}"}}',
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_hidden(text):
    assert CANARY not in redacted(text)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_hidden_in_the_middle_of_a_sentence(text):
    assert CANARY not in redacted(f"It failed, for {text} was refused")


@pytest.mark.parametrize(
    "text",
    [
        "The host answered with status 404",
        "https://example.com/a/b.html",
        "https://example.com:8080/@user/page",
        "KeyError: 'title' (books.py:8 in book)",
        "Waiting for the queue at postgresql://db:5432/shoal: refused (try 3)",
    ],
)
def test_a_text_without_secrets_is_unchanged(text):
    # The "@" of a path may be taken for that of a password where there is a port; the rest is as it was.
    assert redacted(text) in (text, "https://…@user/page")


def test_the_host_of_a_hidden_address_can_still_be_read():
    assert redacted("postgresql://user:secret@db:5432/shoal?x=1") == "postgresql://…@db:5432/shoal?x=1"


def test_known_secrets_are_hidden_wherever_they_stand():
    hide = redactor([CANARY, "abc", ""])
    assert hide(f"who knows why {CANARY} stands here, and abc") == "who knows why … stands here, and abc"


def test_of_two_known_secrets_the_longer_one_is_hidden_whole():
    hide = redactor(["word", f"word-{CANARY}"])
    assert hide(f"first word-{CANARY}, then word") == "first …, then …"


def test_a_url_is_bare_without_user_query_and_fragment():
    assert bare_url(f"https://u:{CANARY}@example.com/a?b={CANARY}#c") == "https://example.com/a"
    assert bare_url("https://example.com/a") == "https://example.com/a"


def test_the_name_of_a_proxy_keeps_its_hash_and_a_fragment_is_hidden():
    for text in ("proxy http://10.0.0.1:8080#1f2e3d4c failed", '{"proxy":"http://a.test:1#1f2e3d4c","n":1}'):
        assert redacted(text) == text
    for fragment in (CANARY, f"1f2e3d4c?{CANARY}", f"1f2e3d4c,{CANARY}", f"1f2e3d4c{CANARY}"):
        assert CANARY not in redacted(f"at http://a.test:1#{fragment}"), fragment
    assert "1f2e3d4c" not in redacted("http://a.test/page#1f2e3d4c")


def test_a_query_keeps_the_values_that_tell_pages_apart():
    assert (
        shown_url("https://u:p@shop.test/s?page=7&q=red%20hat#top")
        == "https://shop.test/s?page=7&q=red%20hat"
    )
    hidden = "https://shop.test/s?page=7&sig=abc&next=https://a@b&" + CANARY + f"&id={'x' * 41}"
    assert shown_url(hidden) == redacted(hidden) == "https://shop.test/s?page=7&sig=…&next=…&…&id=…"


def test_a_secret_at_the_cut_is_not_shown_by_half():
    text = "x " * ((MAX_TEXT - 10) // 2) + f"https://user:{CANARY}{'y' * 100}@example.com/"
    shown = redacted(text)
    assert len(shown) <= MAX_TEXT + 2
    assert "user" not in shown


@pytest.mark.parametrize("piece", ["://a:", "basic ", "cookie ", "token", "a-", "'cookie'='", "://a@", "?"])
def test_hostile_text_is_redacted_in_linear_time(piece):
    began = time.perf_counter()
    redacted(piece * 20_000)
    assert time.perf_counter() - began < 2.0

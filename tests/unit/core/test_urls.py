"""The canonical form of a URL, its host, its fingerprint, and invalid URLs."""

from itertools import product

import can_ada
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import InvalidUrl
from shoal.core.urls import MAX_URL, canonical, canonical_with_host, fingerprint, host_of, join, join_all

BASE = "https://example.com/a/b?q=1"
UNRESERVED = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

CANONICAL = [
    # scheme, host and port
    ("https://example.com/", "https://example.com/"),
    ("HTTP://EXAMPLE.COM/Path", "http://example.com/Path"),
    ("https://example.com", "https://example.com/"),
    ("https://example.com?q", "https://example.com/?q"),
    ("https:example.com", "https://example.com/"),
    ("https:////example.com/x", "https://example.com/x"),
    ("http://example.com:80/", "http://example.com/"),
    ("https://example.com:443/", "https://example.com/"),
    ("https://example.com:80/", "https://example.com:80/"),
    ("http://example.com:/", "http://example.com/"),
    ("http://example.com:00080/", "http://example.com/"),
    ("http://example.com:0/", "http://example.com:0/"),
    ("http://example.com:65535/", "http://example.com:65535/"),
    ("http://@example.com/", "http://example.com/"),
    ("http://ex%61mple.com/", "http://example.com/"),
    ("http://under_score.example/", "http://under_score.example/"),
    # names in other scripts
    ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
    ("https://MÜNCHEN.example/", "https://xn--mnchen-3ya.example/"),
    ("https://faß.example/", "https://xn--fa-hia.example/"),
    ("https://☃.example/", "https://xn--n3h.example/"),
    ("https://ＧＯ.example/", "https://go.example/"),  # noqa: RUF001
    ("https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/"),
    ("https://xn--mnchen-3ya.example/", "https://xn--mnchen-3ya.example/"),
    # addresses
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://0x7F000001/", "http://127.0.0.1/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    ("http://017700000001/", "http://127.0.0.1/"),
    ("http://127.1/", "http://127.0.0.1/"),
    ("http://127.0.0.1./", "http://127.0.0.1/"),
    ("http://%30x7f.1/", "http://127.0.0.1/"),
    ("http://[::1]/", "http://[::1]/"),
    ("http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]/"),
    ("http://[2001:DB8::0:1]:8080/", "http://[2001:db8::1]:8080/"),
    ("http://[::127.0.0.1]/", "http://[::7f00:1]/"),
    # the root of DNS
    ("http://example.com./x", "http://example.com/x"),
    ("http://example.com.:8080/x", "http://example.com:8080/x"),
    ("http://example.com../", "http://example.com../"),
    # paths
    ("http://example.com/a/./b", "http://example.com/a/b"),
    ("http://example.com/a/../b", "http://example.com/b"),
    ("http://example.com/../../b", "http://example.com/b"),
    ("http://example.com/a/..", "http://example.com/"),
    ("http://example.com/a/%2e%2E/b", "http://example.com/b"),
    ("http://example.com/a/.%2e/b", "http://example.com/b"),
    ("http://example.com/a/%2e/b", "http://example.com/a/b"),
    ("http://example.com/a/%2e%2e%2e/b", "http://example.com/a/.../b"),
    ("http://example.com/%2ewell-known", "http://example.com/.well-known"),
    ("http://example.com\\a\\..\\b", "http://example.com/b"),
    ("http://example.com/a//b/", "http://example.com/a//b/"),
    ("http://example.com/Path/", "http://example.com/Path/"),
    ("http://example.com/a b", "http://example.com/a%20b"),
    ("http://example.com/ä", "http://example.com/%C3%A4"),
    ("http://example.com/%c3%a4", "http://example.com/%C3%A4"),
    ("http://example.com/%7euser", "http://example.com/~user"),
    ("http://example.com/a%2fb", "http://example.com/a%2Fb"),
    ("http://example.com/%41%2d%5f%7A", "http://example.com/A-_z"),
    # stray percent signs
    ("http://example.com/100%", "http://example.com/100%"),
    ("http://example.com/%zz", "http://example.com/%zz"),
    ("http://example.com/%252e", "http://example.com/%252e"),
    ("http://example.com/%%32e/", "http://example.com/%%32e/"),
    ("http://example.com/%2%65/", "http://example.com/%2%65/"),
    # queries
    ("http://example.com/?", "http://example.com/"),
    ("http://example.com/x?#f", "http://example.com/x"),
    ("http://example.com/??", "http://example.com/??"),
    ("http://example.com/?b=2&a=1", "http://example.com/?b=2&a=1"),
    ("http://example.com/?q=a+b c'%7e", "http://example.com/?q=a+b%20c%27~"),
    ("http://example.com/?q=ö", "http://example.com/?q=%C3%B6"),
    ("http://example.com/?a=/../b", "http://example.com/?a=/../b"),
    ("http://example.com/?&&", "http://example.com/?&&"),
    # fragments
    ("http://example.com/#top", "http://example.com/"),
    ("http://example.com/#", "http://example.com/"),
    ("http://example.com/a#b?c#d", "http://example.com/a"),
    # white space
    (" \n\thttp://example.com/a \r\n", "http://example.com/a"),
    ("\0http://example.com/a\x1f", "http://example.com/a"),
    ("ht\ntp://exam\tple.com/a\r\nb", "http://example.com/ab"),
]


@pytest.mark.parametrize(("url", "expected"), CANONICAL)
def test_a_url_has_one_canonical_form(url, expected):
    assert canonical(url) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize("place", ["/x", "/?x"])
def test_every_escape_is_decoded_if_unreserved_and_else_upper_case(place):
    for high, low in product("0123456789abcdefABCDEF", repeat=2):
        char = chr(int(high + low, 16))
        expected = char if char in UNRESERVED else f"%{high}{low}".upper()
        assert canonical(f"http://example.com{place}%{high}{low}y") == f"http://example.com{place}{expected}y"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/a@b", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:8080/?@:", "example.com:8080"),
        ("http://example.com.:8080/", "example.com:8080"),
        ("http://[::1]:80/", "[::1]"),
        ("http://[::1]:81/", "[::1]:81"),
        ("http://0x7f.1:8000/", "127.0.0.1:8000"),
        ("https://münchen.example#x", "xn--mnchen-3ya.example"),
    ],
)
def test_the_host_is_the_authority_without_a_default_port(url, host):
    assert host_of(url) == host
    assert canonical_with_host(url) == (canonical(url), host)


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("c", "https://example.com/a/c"),
        ("../c", "https://example.com/c"),
        ("/c", "https://example.com/c"),
        ("//other.example/c", "https://other.example/c"),
        ("?p=2", "https://example.com/a/b?p=2"),
        ("#top", "https://example.com/a/b?q=1"),
        ("", "https://example.com/a/b?q=1"),
        ("  c\n", "https://example.com/a/c"),
        ("c\n\td", "https://example.com/a/cd"),
        ("%7euser/%2e%2e/x", "https://example.com/a/x"),
        ("http://Other.example", "http://other.example/"),
        ("https:c", "https://example.com/a/c"),
        ("\\\\other.example\\c", "https://other.example/c"),
        ("c:d", None),
        ("mailto:joe@example.com", None),
        ("javascript:void(0)", None),
        ("data:text/html,x", None),
        ("//", None),
        ("//example.com:99999/", None),
        ("\ud800", None),
    ],
)
def test_a_link_is_joined_with_its_page(href, expected):
    if expected is None:
        with pytest.raises(InvalidUrl):
            join(BASE, href)
    else:
        assert join(BASE, href) == expected


def test_a_link_on_an_invalid_base_url_is_invalid():
    with pytest.raises(InvalidUrl, match="no scheme"):
        join("/a/b", "https://example.com/")


REFUSED = [
    (None, "of type NoneType; pass a str"),
    (b"https://example.com/", "of type bytes"),
    ("", "empty"),
    (" \n", "empty"),
    ("example.com/a", "write it in full: https://"),
    ("example.com:8080/a", "no scheme"),
    ("localhost:8080", "no scheme"),
    ("//example.com/a", "no scheme"),
    ("/a", "no scheme"),
    ("ftp://example.com/", "its scheme is 'ftp'; only http and https"),
    ("FILE:///etc/passwd", "its scheme is 'file'"),
    ("javascript:alert(1)", "its scheme is 'javascript'"),
    ("http://", "no host"),
    ("https:///", "no host"),
    ("https://?q", "no host"),
    ("https://:80/", "no host"),
    ("https://example.com/" + "a" * MAX_URL, "the limit is 8,192"),
    ("https://example.com/" + "ä" * (MAX_URL // 2), "the limit is 8,192"),
    ("https://example.com/" + "ä" * (MAX_URL // 4), "the limit is 8,192"),
    (f"https://{'a.' * 124}example/", "its host has 255 characters, but a DNS name has at most 253"),
    (f"https://{'a.' * 2000}example:8080/", "a DNS name has at most 253"),
    ("https://example.com/a\0b", "control character"),
    ("https://example.com/a\x7fb", "control character"),
    ("https://example.com/?a\x1bb", "control character"),
    ("https://exa\0mple.com/", "host is not a valid name"),
    ("https://example.com/\ud800", "half a surrogate pair"),
    ("https://user:hunter2@example.com/", "send them in a header"),
    ("https://user@example.com/", "send them in a header"),
    ("https://example.com:65536/", "port is not a number from 0 to 65535"),
    ("https://example.com:" + "9" * 5000, "port is not a number"),
    ("https://example.com:http/", "port is not a number"),
    ("https://[::1/", "host is not a valid name"),
    ("https://[::1%25eth0]/", "host is not a valid name"),
    ("https://exa mple.com/", "host is not a valid name"),
    ("https://1.2.3.4.5/", "host is not a valid name"),
    ("https://256.256.256.256/", "host is not a valid name"),
    ("https://xn--a/", "host is not a valid name"),
    ("https://a%2fb/", "host is not a valid name"),
]


@pytest.mark.parametrize(("url", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_an_invalid_url_is_rejected_with_advice(url, reason):
    with pytest.raises(InvalidUrl) as caught:
        canonical(url)
    assert reason in caught.value.reason
    assert reason in str(caught.value)


@pytest.mark.parametrize("port", ["", ":8080"])
def test_the_longest_host_is_accepted(port):
    host = f"{'a' * 63}." * 3 + "b" * 61 + port
    assert len(host) == 253 + len(port)
    assert host_of(f"https://{host}/") == host
    assert host_of(f"https://{host.removesuffix(port)}.{port}/") == host, "the root's dot is no part of it"


def test_the_longest_url_is_accepted():
    url = "https://example.com/".ljust(MAX_URL, "a")
    assert canonical(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@example.com/",
        "https://hunter2@example.com/",
        "https:user:hunter2@example.com",
        "https:\\\\user:hunter2@example.com",
        "https:/\t/user:hunter2@example.com",
        "https://user:pass@hunter2@example.com/",
        "https://user:hunter2/x@example.com/",
        "https://user:hunter2@example.com:99999/",
        "ftp://user:hunter2@example.com/",
        "user:hunter2@example.com",
        b"https://user:hunter2@example.com/",
    ],
)
def test_the_error_for_an_invalid_url_hides_its_password(url):
    with pytest.raises(InvalidUrl) as caught:
        canonical(url)
    assert "hunter2" not in f"{caught.value} {caught.value.url} {caught.value.reason}"


def test_the_error_for_an_invalid_url_without_a_password_shows_it_whole():
    with pytest.raises(InvalidUrl) as caught:
        canonical("ftp://example.com/@joe?a:b@c")
    assert caught.value.url == "ftp://example.com/@joe?a:b@c"


def test_a_fingerprint_is_16_bytes_of_the_canonical_form():
    assert len(fingerprint("https://example.com/")) == 16
    assert fingerprint("HTTPS://Example.com:443/%7e#x") == fingerprint("https://example.com/~")
    assert fingerprint("https://example.com/a") != fingerprint("https://example.com/a/")


# Text that is often a URL, and often an unusual one.
SCRAPS = st.sampled_from(
    ["..", "%2e", "%2E", "%%32e", "%7e", "%25", "%c3", "utm_source=1", "xn--", "0x7f", "[::1]", ":80"]
) | st.sampled_from("/\\?#&=@:%.aBe21üß。 \t\n\0\u200d")
PIECES = st.lists(SCRAPS | st.text(max_size=3), max_size=12).map("".join)
WEB = st.builds(
    "{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP:", "https:\\\\"]),
    st.sampled_from(["example.com", "a.", "Ü.de", "1.2", "[::1]:80", ""]),
    PIECES,
)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40) | PIECES | WEB


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(ANYTHING)
def test_any_text_is_an_invalid_url_or_has_a_stable_canonical_form(text):
    try:
        url = canonical(text)
    except InvalidUrl as error:
        assert error.reason
        return
    copy = url.encode().decode()  # the same object would not be parsed again
    assert copy is not url and canonical(copy) == url
    assert url.isascii() and url.isprintable() and "#" not in url and len(url) <= MAX_URL
    assert host_of(url) == host_of(text) == can_ada.parse(url).host
    assert not {".", ".."} & set(can_ada.parse(url).pathname.split("/"))


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(WEB, ANYTHING)
def test_a_joined_link_is_canonical_or_invalid(base, href):
    try:
        url = join(base, href)
    except InvalidUrl:
        return
    assert canonical(url) == url


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(WEB, st.lists(ANYTHING, max_size=5))
def test_links_joined_together_are_what_each_is_alone(base, hrefs):
    alone = dict.fromkeys(url for href in hrefs if (url := joined_or_none(base, href)) is not None)
    assert list(join_all(base, hrefs)) == list(alone)


def joined_or_none(base, href):
    try:
        return join(base, href)
    except InvalidUrl:
        return None


def test_links_of_any_length_are_joined_within_the_limit():
    long = [f"/{'a' * size}" for size in (MAX_URL // 4 - 1, MAX_URL // 4, MAX_URL - 200, MAX_URL)]
    assert [url.rpartition("/")[2] for url in join_all(BASE, long)] == [href[1:] for href in long[:3]]
    assert join_all(BASE, ["ü" * (MAX_URL // 4)]) == {}  # six characters each, once they are escaped


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(WEB)
def test_an_empty_link_leads_to_the_page_itself(base):
    try:
        url = canonical(base)
    except InvalidUrl:
        return
    assert join(base, "") == join(base, "#x") == join("https://other.example/", url) == url


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(PIECES, PIECES)
def test_fingerprints_are_equal_where_canonical_forms_are(one, other):
    try:
        one, other = join(BASE, one), join(BASE, other)
    except InvalidUrl:
        return
    assert (fingerprint(one) == fingerprint(other)) is (canonical(one) == canonical(other))


@settings(deadline=None, max_examples=3 * settings.default.max_examples, database=None)
@given(
    st.sampled_from(["http:", "https:", "ftp:", " HT\tTPS:", "//", ""]),
    st.text("/\\\t\n", max_size=4),
    st.text(st.characters(exclude_characters="/\\?#"), max_size=4),
    PIECES,
)
def test_no_error_for_an_invalid_url_shows_its_password(scheme, slashes, user, rest):
    with pytest.raises(InvalidUrl) as caught:
        canonical(f"{scheme}{slashes}{user}:s3cr3t@example.com{rest}")
    assert "s3cr3t" not in f"{caught.value} {caught.value.url} {caught.value.reason}"

"""Which cookies are stored, and to which hosts they are sent."""

import pytest

from shoal.fetch.http import cookies
from shoal.fetch.http.cookies import MAX_LENGTH, MAX_PER_HOST, CookieJar

SITE = "https://shop.test/a/b?c"


@pytest.fixture
def clock():
    return [1_000_000.0]


@pytest.fixture
def jar(clock):
    return CookieJar(clock=lambda: clock[0])


def host_of(url):
    return url.split("/")[2]


def keep(jar, *lines, url=SITE):
    jar.store(url, host_of(url), lines)


def sent(jar, url=SITE):
    return jar.header(url, host_of(url))


def test_a_cookie_goes_back_to_its_host(jar):
    keep(jar, "id=1; HttpOnly; SameSite=Lax", "lang=en")
    assert sent(jar) == "id=1; lang=en"


@pytest.mark.parametrize(
    "url",
    [
        "https://www.shop.test/a/b",
        "https://test/a/b",
        "https://shop.test.evil.test/a/b",
        "https://other.test/a/b",
        "https://shop.test:8443/a/b",
    ],
)
@pytest.mark.parametrize("domain", ["", "; Domain=shop.test", "; Domain=.test", "; Domain=test; Path=/"])
def test_a_cookie_goes_to_no_other_host_whatever_its_domain_says(jar, url, domain):
    keep(jar, f"id=1{domain}")
    assert sent(jar) == "id=1"
    assert sent(jar, url) is None


@pytest.mark.parametrize("suffix", ["co.uk", "com", "github.io", "test"])
def test_a_cookie_for_a_public_suffix_stays_with_the_host_that_set_it(jar, suffix):
    keep(jar, f"id=1; Domain={suffix}; Path=/", url=f"https://one.{suffix}/")
    assert sent(jar, f"https://two.{suffix}/") is None
    assert sent(jar, f"https://{suffix}/") is None


def test_two_jars_know_nothing_of_each_other(jar):
    keep(jar, "id=1")
    assert sent(CookieJar()) is None


def test_a_secure_cookie_is_not_sent_in_the_clear_nor_set_from_there(jar):
    keep(jar, "id=1; Secure; Path=/")
    assert sent(jar, "http://shop.test/") is None
    keep(jar, "other=1; Secure", url="http://shop.test/")
    assert sent(jar, "https://shop.test/") == "id=1"


def test_a_cookie_set_in_the_clear_is_sent_over_tls_too(jar):
    keep(jar, "seen=1; Path=/", url="http://shop.test/")
    assert sent(jar, "https://shop.test/") == "seen=1"


@pytest.mark.parametrize(
    ("path", "page", "fits"),
    [
        ("/", "/", True),
        ("/", "/a/b", True),
        ("/a", "/a", True),
        ("/a", "/a/b", True),
        ("/a", "/ab", False),
        ("/a", "/", False),
        ("/a/", "/a/b", True),
        ("/a/", "/a", False),
        ("", "/a/c", True),
        ("", "/c", False),
        ("no slash", "/a/c", True),
    ],
)
def test_a_cookie_is_for_its_path_and_what_lies_below(jar, path, page, fits):
    keep(jar, f"id=1; Path={path}")
    assert (sent(jar, f"https://shop.test{page}?q=/a") is not None) == fits


def test_the_longer_path_comes_first(jar):
    keep(jar, "id=outer; Path=/", "id=inner; Path=/a")
    assert sent(jar) == "id=inner; id=outer"


def test_a_new_value_takes_the_place_of_the_old(jar):
    keep(jar, "id=1")
    keep(jar, "id=2")
    assert sent(jar) == "id=2"
    assert len(jar) == 1


@pytest.mark.parametrize(
    "line", ["id=; Max-Age=0", "id=x; max-age=-1", "id=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_a_cookie_may_be_taken_back(jar, line):
    keep(jar, "id=1")
    keep(jar, line)
    assert sent(jar) is None


def test_a_cookie_ends_when_its_age_is_up(jar, clock):
    keep(jar, "id=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT")
    clock[0] += 59
    assert sent(jar) == "id=1"
    clock[0] += 1
    assert sent(jar) is None


@pytest.mark.parametrize("age", ["abc", "1e9", "", "9" * 400, "--1", "٣"])
def test_an_age_that_is_no_number_is_none(jar, age):
    keep(jar, f"id=1; Max-Age={age}; Expires=soon")
    assert sent(jar) == "id=1"


@pytest.mark.parametrize(
    "line",
    ["", "id", "=value", ";", "; Path=/", " = ", "a\x00b=1", "id=a\r\nX: y", "id=" + "x" * (MAX_LENGTH + 1)],
)
def test_what_is_no_cookie_is_not_kept(jar, line):
    keep(jar, line)
    assert len(jar) == 0


def test_a_value_may_hold_an_equals_sign_and_quotes(jar):
    keep(jar, 'id="a=b"; Path=/')
    assert sent(jar) == 'id="a=b"'


def test_a_host_may_set_only_so_many(jar):
    keep(jar, *(f"c{number}={number}" for number in range(MAX_PER_HOST + 10)))
    assert len(jar) == MAX_PER_HOST
    assert "c0=" not in sent(jar)


@pytest.mark.parametrize("line", ["c{}=" + "x" * 4_000, "c{}=1; Path=/a/" + "x" * 4_000])
def test_a_host_may_set_only_so_much(jar, line):
    keep(jar, *(line.format(number) for number in range(20)))
    assert len(jar) == 4


def test_only_so_many_hosts_are_remembered(jar, monkeypatch):
    monkeypatch.setattr(cookies, "MAX_HOSTS", 3)
    for number in range(5):
        keep(jar, "id=1", url=f"https://{number}.test/")
    assert [sent(jar, f"https://{number}.test/") for number in range(5)] == [
        None,
        None,
        "id=1",
        "id=1",
        "id=1",
    ]


def test_what_was_told_over_tls_is_not_said_in_the_clear(jar):
    jar.store("https://a.test/", "a.test", ["sid=1"])
    assert jar.header("https://a.test/", "a.test") == "sid=1"
    assert jar.header("http://a.test/", "a.test") is None

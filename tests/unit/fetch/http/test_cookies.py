"""Which cookies are stored, and to which hosts they are sent."""

import email.message
import http.cookiejar
import urllib.request
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def count(jar):
    return sum(len(stored) for kind in (jar._hosts, jar._sites) for stored in kind.values())


OTHERS = [
    "https://www.shop.test/a/b",
    "https://test/a/b",
    "https://shop.test.evil.test/a/b",
    "https://notshop.test/a/b",
    "https://other.test/a/b",
    "https://shop.test:8443/a/b",
]


@pytest.mark.parametrize("url", OTHERS)
@pytest.mark.parametrize("domain", ["", "; Domain", "; Domain=", "; Domain=."])
def test_a_cookie_without_a_domain_goes_to_no_other_host(jar, url, domain):
    keep(jar, f"id=1{domain}")
    assert sent(jar) == "id=1"
    assert sent(jar, url) is None


@pytest.mark.parametrize("url", OTHERS[1:])
@pytest.mark.parametrize("domain", ["shop.test", ".shop.test", "SHOP.Test"])
def test_a_cookie_with_a_domain_goes_to_its_subdomains_and_no_further(jar, url, domain):
    keep(jar, f"id=1; Domain={domain}")
    assert sent(jar) == "id=1"
    assert sent(jar, "https://www.shop.test/a/b") == "id=1"
    assert sent(jar, "https://a.b.shop.test/a/b") == "id=1"
    assert sent(jar, url) is None


@pytest.mark.parametrize("suffix", ["co.uk", "com", "github.io", "test", "xn--p1ai"])
def test_no_cookie_is_set_for_a_public_suffix(jar, suffix):
    keep(jar, f"id=1; Domain={suffix}; Path=/", url=f"https://a.one.{suffix}/")
    keep(jar, f"id=1; Domain={suffix}; Path=/", url=f"https://one.{suffix}/")
    assert count(jar) == 0


def test_a_public_suffix_sets_cookies_for_itself_only(jar):
    keep(jar, "id=1; Domain=github.io; Path=/", url="https://github.io/")
    assert sent(jar, "https://github.io/") == "id=1"
    assert sent(jar, "https://one.github.io/") is None


@pytest.mark.parametrize(
    "domain", ["other.test", "www.shop.test", "evilshop.test", "shop.test.", "..shop.test"]
)
def test_no_cookie_is_set_for_another_domain(jar, domain):
    keep(jar, f"id=1; Domain={domain}; Path=/")
    assert count(jar) == 0


@pytest.mark.parametrize(("host", "part"), [("127.0.0.1", "0.0.1"), ("10.1.2.3", "2.3"), ("[::1]", "1]")])
def test_an_address_has_no_subdomains(jar, host, part):
    keep(jar, f"id=1; Domain={part}; Path=/", url=f"https://{host}/")
    assert count(jar) == 0
    keep(jar, f"id=1; Domain={host}; Path=/", url=f"https://{host}/")
    assert sent(jar, f"https://{host}/") == "id=1"
    assert sent(jar, "https://9.0.0.1/") is None
    assert sent(jar, f"https://a.{host.strip('[]:')}/") is None


def test_a_cookie_with_a_domain_goes_to_the_port_it_was_set_on(jar):
    keep(jar, "id=1; Domain=shop.test; Path=/", url="https://shop.test:8443/")
    assert sent(jar, "https://www.shop.test:8443/") == "id=1"
    assert sent(jar, "https://www.shop.test/") is None
    assert sent(jar, "https://shop.test:9443/") is None


def test_cookies_of_a_host_and_of_its_domain_are_two(jar):
    keep(jar, "id=host", "id=site; Domain=shop.test")
    assert sent(jar) == "id=host; id=site"
    keep(jar, "id=; Max-Age=0; Domain=shop.test")
    assert sent(jar) == "id=host"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("__Host-id=1; Secure; Path=/", True),
        ("__Host-id=1; Secure; Path=/; Domain=shop.test", False),
        ("__host-id=1; Secure", False),
        ("__Host-id=1; Path=/", False),
        ("__Secure-id=1; Secure; Domain=shop.test", True),
        ("__Secure-id=1", False),
    ],
)
def test_a_cookie_keeps_what_its_prefix_promises(jar, line, kept):
    keep(jar, line)
    assert (count(jar) == 1) == kept


def test_the_domains_of_a_site_share_one_limit(jar):
    deep = [".".join(["d"] * depth + ["shop", "test"]) for depth in range(60)]
    for domain in deep:
        lines = [f"c{number}={'x' * 300}; Domain={domain}; Path=/" for number in range(50)]
        keep(jar, *lines, url=f"https://{deep[-1]}/")
    assert count(jar) <= MAX_PER_HOST
    assert len(sent(jar, f"https://{deep[-1]}/")) < 2 * cookies.MAX_LENGTH_PER_HOST


def test_only_so_many_sites_are_remembered(jar, monkeypatch):
    monkeypatch.setattr(cookies, "MAX_HOSTS", 3)
    for number in range(5):
        keep(jar, f"id=1; Domain={number}a.test; Path=/", url=f"https://{number}a.test/")
    assert count(jar) == 3


HOSTS = [
    "example.com",
    "a.example.com",
    "b.a.example.com",
    "other.com",
    "xexample.com",
    "shop.co.uk",
    "x.shop.co.uk",
]
PATHS = ["/", "/a", "/a/", "/a/b", "/ab"]
SETS = st.tuples(
    st.sampled_from(HOSTS),
    st.sampled_from(PATHS),
    st.sampled_from(["n", "m"]),
    st.sampled_from([None, "com", "co.uk", *HOSTS, *(f".{host}" for host in HOSTS)]),
    st.sampled_from([None, *PATHS]),
    st.sampled_from([None, 0, 60]),
    st.booleans(),
)


@given(st.lists(SETS, max_size=12))
def test_the_same_cookies_are_sent_as_by_the_standard_library(sets):
    ours, theirs = CookieJar(), http.cookiejar.CookieJar(POLICY)
    for number, (host, page, name, domain, path, age, secure) in enumerate(sets):
        url = f"https://{host}{page}"
        if not f".{host}".endswith(f".{(domain or host).lstrip('.')}"):
            age = None  # there, a host may take back a cookie that it may not set
        attributes = {"Domain": domain, "Path": path, "Max-Age": age}
        line = f"{name}={number}" + "".join(
            f"; {key}={text}" for key, text in attributes.items() if text is not None
        )
        line += "; Secure" if secure else ""
        ours.store(url, host, [line])
        theirs.extract_cookies(answer_with(line), urllib.request.Request(url))
    for host in HOSTS:
        for page in PATHS:
            request = urllib.request.Request(f"https://{host}{page}")
            theirs.add_cookie_header(request)
            expected = (request.get_header("Cookie") or "").split("; ")
            assert sorted((ours.header(request.full_url, host) or "").split("; ")) == sorted(expected)


# It refuses suffixes of two parts such as co.uk; by default it sends a host's own cookies to its sub-domains.
POLICY = http.cookiejar.DefaultCookiePolicy(
    strict_domain=True, strict_ns_domain=http.cookiejar.DefaultCookiePolicy.DomainStrictNonDomain
)


def answer_with(line):
    headers = email.message.Message()
    headers["Set-Cookie"] = line
    return SimpleNamespace(info=lambda: headers)


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
    assert count(jar) == 0


def test_a_value_may_hold_an_equals_sign_and_quotes(jar):
    keep(jar, 'id="a=b"; Path=/')
    assert sent(jar) == 'id="a=b"'


def test_a_host_may_set_only_so_many(jar):
    keep(jar, *(f"c{number}={number}" for number in range(MAX_PER_HOST + 10)))
    assert count(jar) == MAX_PER_HOST
    assert "c0=" not in sent(jar)


@pytest.mark.parametrize("line", ["c{}=" + "x" * 4_000, "c{}=1; Path=/a/" + "x" * 4_000])
def test_a_host_may_set_only_so_much(jar, line):
    keep(jar, *(line.format(number) for number in range(20)))
    assert count(jar) == 4


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


def test_a_cookie_set_over_tls_is_not_sent_in_the_clear(jar):
    jar.store("https://a.test/", "a.test", ["sid=1"])
    assert jar.header("https://a.test/", "a.test") == "sid=1"
    assert jar.header("http://a.test/", "a.test") is None

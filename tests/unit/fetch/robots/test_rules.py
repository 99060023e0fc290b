"""Parsing robots.txt: the outcomes of RFC 9309, in a table."""

import time
from datetime import timedelta

import pytest

from shoal.fetch.robots.rules import MAX_READ, RobotsRules, product_of, relevant

ALLOWED, DENIED = True, False
SITE = "https://a.test"


def rules(text, product="shoal"):
    body = text.encode() if isinstance(text, str) else text
    return RobotsRules(relevant(body, product), product)


CASES = [
    # nothing said
    ("", "/", ALLOWED),
    ("# only a comment", "/x", ALLOWED),
    ("<html><body>Not found: Disallow: /</body></html>", "/x", ALLOWED),
    ("User-agent: *", "/x", ALLOWED),
    ("User-agent: *\nDisallow:", "/x", ALLOWED),
    ("Disallow: /", "/x", ALLOWED),
    # prefixes
    ("User-agent: *\nDisallow: /", "/", DENIED),
    ("User-agent: *\nDisallow: /a", "/a", DENIED),
    ("User-agent: *\nDisallow: /a", "/abc/d", DENIED),
    ("User-agent: *\nDisallow: /a", "/b/a", ALLOWED),
    ("User-agent: *\nDisallow: /a/", "/a", ALLOWED),
    ("User-agent: *\nDisallow: /A", "/a", ALLOWED),
    # the longest match wins, and the more friendly of two equals
    ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", ALLOWED),
    ("User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/b/c", ALLOWED),
    ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b/c", DENIED),
    ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", ALLOWED),
    ("User-agent: *\nDisallow: /example/page/\nAllow: /example/page/ok.gif", "/example/page/ok.gif", ALLOWED),
    # wildcards and the end
    ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", DENIED),
    ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x", ALLOWED),
    ("User-agent: *\nDisallow: /*.pdf", "/a/b.pdf?x", DENIED),
    ("User-agent: *\nDisallow: /a*c", "/abbbc/d", DENIED),
    ("User-agent: *\nDisallow: /a*c", "/abbb", ALLOWED),
    ("User-agent: *\nDisallow: *", "/", DENIED),
    ("User-agent: *\nDisallow: /$", "/", DENIED),
    ("User-agent: *\nDisallow: /$", "/a", ALLOWED),
    ("User-agent: *\nDisallow: /*?", "/a?b", DENIED),
    ("User-agent: *\nDisallow: /*?", "/a", ALLOWED),
    # escapes
    ("User-agent: *\nDisallow: /foo/bar?baz=http://foo.bar", "/foo/bar?baz=http://foo.bar", DENIED),
    ("User-agent: *\nDisallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", DENIED),
    ("User-agent: *\nDisallow: /foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", DENIED),
    ("User-agent: *\nDisallow: /%61b", "/ab", DENIED),
    ("User-agent: *\nDisallow: /a%2Fb", "/a/b", ALLOWED),
    # which group is ours
    ("User-agent: shoal\nDisallow: /a", "/a", DENIED),
    ("User-agent: SHOAL\nDisallow: /a", "/a", DENIED),
    ("User-agent: shoal/1.0\nDisallow: /a", "/a", DENIED),
    ("User-agent: other\nDisallow: /", "/a", ALLOWED),
    ("User-agent: sho\nDisallow: /", "/a", ALLOWED),
    ("User-agent: shoals\nDisallow: /", "/a", ALLOWED),
    ("User-agent: big-shoal\nDisallow: /", "/a", ALLOWED),
    ("User-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow: /a", "/b", ALLOWED),
    ("User-agent: shoal\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/b", ALLOWED),
    ("User-agent: shoal\nDisallow:\n\nUser-agent: *\nDisallow: /", "/b", ALLOWED),
    ("User-agent: shoal\n\nUser-agent: *\nDisallow: /", "/b", DENIED),
    ("User-agent: a\nUser-agent: shoal\nUser-agent: b\nDisallow: /a", "/a", DENIED),
    ("User-agent: shoal\nDisallow: /a\nUser-agent: other\nDisallow: /b", "/b", ALLOWED),
    ("User-agent: other\nDisallow: /b\nUser-agent: shoal\nDisallow: /a", "/b", ALLOWED),
    # groups of the same agent are one
    ("User-agent: shoal\nDisallow: /a\n\nUser-agent: shoal\nDisallow: /b", "/a", DENIED),
    ("User-agent: shoal\nDisallow: /a\n\nUser-agent: shoal\nDisallow: /b", "/b", DENIED),
    ("User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", "/a", DENIED),
    # other lines do not interfere
    ("User-agent: a\nSitemap: /s.xml\nUser-agent: shoal\nDisallow: /a", "/a", DENIED),
    ("User-agent: shoal\nNoindex: /x\nUser-agent: b\nDisallow: /a", "/a", DENIED),
    ("User-agent: shoal\nFoo: bar\n\n\nDisallow: /a", "/a", DENIED),
    ("User-agent: *\nDisallow: /a # why\n# Disallow: /b", "/a", DENIED),
    ("User-agent: *\nDisallow: /a # why\n# Disallow: /b", "/b", ALLOWED),
    # spelling and spacing
    ("  user-AGENT :  * \n\tDISALLOW:/a ", "/a", DENIED),
    ("User-agent: *\r\nDisallow: /a\r\n", "/a", DENIED),
    ("User-agent: *\rDisallow: /a\r", "/a", DENIED),
    ("User agent: *\nDissallow: /a", "/a", DENIED),
    ("Useragent *\nDisallow /a", "/a", DENIED),
    # the file itself
    ("User-agent: *\nDisallow: /", "/robots.txt", ALLOWED),
    # bytes
    (b"\xef\xbb\xbfUser-agent: *\nDisallow: /a", "/a", DENIED),
    ("User-agent: *\nDisallow: /a".encode("utf-16"), "/a", DENIED),
    (b"\xff\xfe", "/a", ALLOWED),
    (b"\x80\x81\xfe\xff\nUser-agent: *\nDisallow: /\xe9\nDisallow: /a", "/a", DENIED),
    (b"User-agent: *\nDisallow: /a\x00b\nDisallow: /c", "/c", DENIED),
]


def test_a_robots_txt_means_what_the_rfc_says():
    for text, path, outcome in CASES:
        assert rules(text).allows(SITE + path) is outcome, (text, path)


def test_what_lies_beyond_the_limit_is_not_read():
    start = b"User-agent: *\nDisallow: /first\n"
    filler = b"# " + b"x" * 97 + b"\n"
    body = start + filler * ((MAX_READ - len(start)) // len(filler) + 1) + b"Disallow: /last\n"
    read = rules(body)
    assert not read.allows(f"{SITE}/first")
    assert read.allows(f"{SITE}/last")


def test_a_line_that_the_limit_cuts_in_two_is_not_read():
    start = b"User-agent: *\n#"
    body = start + b"x" * (MAX_READ - len(start) - len("\nDisallow: /")) + b"\nDisallow: /deep/below\n"
    assert body[MAX_READ - 1 :].startswith(b"/deep")
    assert rules(body).allows(f"{SITE}/elsewhere")


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 2", timedelta(seconds=2)),
        ("User-agent: *\nCrawl-delay: 0.5", timedelta(seconds=0.5)),
        ("User-agent: *\nCrawl-delay: 99999999", timedelta(minutes=5)),
        ("User-agent: *\nCrawl-delay: 1e300", timedelta(minutes=5)),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: other\nCrawl-delay: 2", None),
        ("User-agent: *\nCrawl-delay: 2\nUser-agent: shoal\nCrawl-delay: 3", timedelta(seconds=3)),
        ("", None),
    ],
)
def test_a_site_may_ask_for_a_delay(text, delay):
    assert rules(text).crawl_delay == delay


@pytest.mark.parametrize(
    ("user_agent", "product"),
    [
        ("Shoal/0.1 (+https://shoal.test)", "shoal"),
        ("shoal", "shoal"),
        ("My_Bot-x/2", "my_bot-x"),
        ("Mozilla/5.0 (compatible; PriceBot/2.1; +https://p.test)", "pricebot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("123", "shoal"),
        ("", "shoal"),
    ],
)
def test_a_user_agent_is_addressed_by_its_product(user_agent, product):
    assert product_of(user_agent) == product


HOSTILE = {
    "many agents and many rules": "User-agent: a{}\n" * 15_000 + "Disallow: /{}\n" * 15_000,
    "many agents": "User-agent: a{}\n" * 30_000,
    "one pattern of stars": "User-agent: *\nDisallow: /" + "*a" * 200_000,
    "many patterns of stars": "User-agent: *\n" + "Disallow: /*{}*a*b\n" * 20_000,
    "many dollars": "User-agent: *\nDisallow: /" + "$" * 400_000,
    "many escapes": "User-agent: *\nDisallow: /" + "%41" * 150_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_costs_neither_much_time_nor_much_room(text):
    parts = text.split("{}")
    filled = "".join(part + str(number) for number, part in enumerate(parts[:-1])) + parts[-1]
    started = time.process_time()
    read = rules(filled)
    read.allows(SITE + "/" + "a" * 8_000)
    assert time.process_time() - started < 3
    assert sum(len(group._rules) for group in read._rules._user_agents.values()) <= 40_000

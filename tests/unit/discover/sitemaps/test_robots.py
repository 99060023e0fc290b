"""The sitemaps that a robots.txt lists."""

import time

from shoal.core.urls import origin_of
from shoal.discover.sitemaps.fetch import MAX_SITEMAPS, sitemaps_in

HOME = "https://a.test"


def test_every_sitemap_is_found_whatever_its_spelling():
    body = (
        b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /\r\n# Sitemap: https://a.test/no.xml\r\n"
        b"Sitemap: https://a.test/1.xml\r  SITEMAP :https://A.test/2.xml # x\nsite-map: /3.xml\n"
        b"Sitemap: https://a.test/1.xml\nSitemap: ftp://a.test/4.xml\nSitemap:\nSitemaps: https://b.test/5.xml"
    )
    assert sitemaps_in(body, HOME) == [
        "https://a.test/1.xml",
        "https://a.test/2.xml",
        "https://a.test/3.xml",
        "https://b.test/5.xml",
    ]


def test_a_hostile_file_is_read_in_part_and_in_no_time():
    started = time.process_time()
    many = b"".join(b"Sitemap: https://a.test/%d\n" % number for number in range(100_000))
    assert len(sitemaps_in(many, HOME)) == MAX_SITEMAPS
    assert sitemaps_in(b"sitemap" * 1_000_000, HOME) == []
    assert sitemaps_in(b" " * 10_000_000, HOME) == []
    assert sitemaps_in(b"sitemap:" + b" " * 10_000_000, HOME) == []
    assert time.process_time() - started < 5


def test_the_origin_is_scheme_and_host():
    assert origin_of("https://a.test:8443/x/y?z") == "https://a.test:8443"

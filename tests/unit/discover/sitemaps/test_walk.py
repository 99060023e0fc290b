"""Sitemap walks: which files they read and which not, and the report."""

import gzip
from datetime import UTC, datetime

import pytest

from shoal.core.errors import ConnectFailed, FetchTimeout, InvalidUrl, TooLarge
from shoal.core.http import Response
from shoal.core.model import Task
from shoal.discover.sitemaps.report import MAX_PROBLEMS, UNENCRYPTED, Problem, SitemapReport
from shoal.discover.sitemaps.walk import MAX_ROBOTS, NO_SITEMAP
from tests.unit.discover.site import HOME, Site, index, sitemaps, urlset, walk

START = f"{HOME}/sitemap.xml"


def problems(report):
    return {problem.url.removeprefix(HOME): problem.reason for problem in report.problems}


async def test_an_index_leads_to_the_pages_of_all_its_sitemaps():
    site = Site(
        {
            "/sitemap.xml": index(f"{HOME}/1.xml", f"{HOME}/2.xml.gz", f"{HOME}/3.txt"),
            "/1.xml": urlset(f"{HOME}/a", f"{HOME}/b"),
            "/2.xml.gz": gzip.compress(urlset(f"{HOME}/c").encode(), mtime=0),
            "/3.txt": f"{HOME}/d\n{HOME}/e\n",
        }
    )
    found, refusals, report = await walk(site, START)
    assert found == [f"{HOME}/{letter}" for letter in "abcde"]
    assert (refusals, report.files, report.urls, report.problems) == ([], 4, 5, [])


async def test_tasks_have_the_step_and_what_the_sitemap_says():
    site = Site({"/sitemap.xml": f"<urlset><url><loc>{HOME}/a</loc><lastmod>2026</lastmod></url></urlset>"})
    assert [each async for each in sitemaps(site, START, step="page")] == [
        Task(url=f"{HOME}/a", step="page", payload={"lastmod": "2026"})
    ]


async def test_who_walks_says_where_pages_are_asked_for_by_what_was_typed():
    """Also if a sitemap typed with https lists one without."""
    plain = HOME.replace("https:", "http:")
    site = Site(
        {"/sitemap.xml": index(f"{plain}/1.xml"), f"{plain}/1.xml": urlset(f"{plain}/a", f"{plain}/b")}
    )

    def rewrite(url, origin):
        assert origin == START
        return None if url.endswith("b") else url.replace("http:", "https:")

    found, refusals, report = await walk(site, START, rewrite=rewrite)
    assert (found, len(refusals)) == ([f"{HOME}/a"], 1)
    assert report.skipped == {UNENCRYPTED: 1}


@pytest.mark.parametrize("start", [HOME, START])
async def test_a_feed_among_the_sitemaps_is_named_and_the_others_are_read(start):
    site = Site(
        {
            "/robots.txt": f"Sitemap: {HOME}/feed.xml\nSitemap: {HOME}/1.xml",
            "/sitemap.xml": index(f"{HOME}/feed.xml", f"{HOME}/1.xml"),
            "/feed.xml": "<rss><channel/></rss>",
            "/1.xml": urlset(f"{HOME}/a"),
        }
    )
    found, _, report = await walk(site, start)
    assert found == [f"{HOME}/a"]
    assert problems(report) == {"/feed.xml": "it is a feed, not a sitemap. Read it with: --feed URL"}


async def test_a_site_is_asked_which_sitemaps_it_has():
    site = Site(
        {
            "/robots.txt": f"Sitemap: {HOME}/one.xml\nSitemap: /two.xml",
            "/one.xml": urlset(f"{HOME}/a"),
            "/two.xml": urlset(f"{HOME}/b"),
            "/sitemap.xml": urlset(f"{HOME}/c"),
        }
    )
    found, _, _ = await walk(site, HOME)
    assert found == [f"{HOME}/a", f"{HOME}/b"]
    assert f"{HOME}/sitemap.xml" not in site.asked


@pytest.mark.parametrize("guess", ["/sitemap.xml", "/sitemap_index.xml"])
@pytest.mark.parametrize("robots", [404, 403, "User-agent: *\nDisallow: /x"])
async def test_a_site_that_names_none_is_looked_at_in_the_usual_places(guess, robots):
    site = Site({"/robots.txt": robots, "/sitemap.xml": "<html/>", guess: urlset(f"{HOME}/a")})
    found, _, report = await walk(site, HOME)
    assert found == [f"{HOME}/a"]
    assert report.problems == []


async def test_a_site_without_any_is_named_once():
    _, _, report = await walk(Site({}), HOME)
    assert report.problems == [Problem(HOME, NO_SITEMAP)]


async def test_a_robots_txt_that_cannot_be_had_is_named_and_the_usual_places_tried():
    site = Site({"/robots.txt": ConnectFailed("refused"), "/sitemap.xml": urlset(f"{HOME}/a")})
    found, _, report = await walk(site, HOME)
    assert found == [f"{HOME}/a"]
    assert problems(report) == {"/robots.txt": "ConnectFailed: refused"}


async def test_one_bad_file_does_not_end_the_others():
    bad = {
        "/404.xml": 404,
        "/503.xml": 503,
        "/slow.xml": FetchTimeout("no whole answer within 60 s"),
        "/large.xml": TooLarge("sends more than 52,428,800 bytes"),
        "/page.xml": "<html><body/></html>",
        "/text.xml": "not found",
        "/broken.xml": f"<urlset><url><loc>{HOME}/kept</loc></url><url>",
        "/torn.xml": gzip.compress(urlset(*[f"{HOME}/{n}" for n in range(99)]).encode(), mtime=0)[:40],
    }
    names = [f"{HOME}{path}" for path in bad]
    site = Site({"/sitemap.xml": index(*names, f"{HOME}/good.xml"), "/good.xml": urlset(f"{HOME}/a"), **bad})
    found, _, report = await walk(site, START)
    assert found == [f"{HOME}/kept", f"{HOME}/a"]
    told = problems(report)
    assert told.keys() == bad.keys()
    assert told["/404.xml"] == "status 404"
    assert told["/slow.xml"] == "FetchTimeout: no whole answer within 60 s"
    assert told["/page.xml"] == "it is an HTML page, not a sitemap"
    assert told["/broken.xml"].endswith("; its first 1 entries were read")
    assert told["/torn.xml"] == "its gzip data is truncated"


async def test_since_leaves_out_what_was_not_changed_and_keeps_what_does_not_say():
    def entry(path, date):
        return f"<url><loc>{HOME}/{path}</loc><lastmod>{date}</lastmod></url>"

    pages = "".join(
        [
            entry("old", "2026-02-14"),
            entry("day", "2026-02-15"),
            entry("new", "2026-02-15T13:00:00Z"),
            entry("early", "2026-02-15T11:00:00Z"),
            entry("month", "2026-02"),
            entry("odd", "yesterday"),
            f"<url><loc>{HOME}/silent</loc></url>",
        ]
    )
    site = Site(
        {
            "/sitemap.xml": f"<sitemapindex><sitemap><loc>{HOME}/old.xml</loc><lastmod>2026-01-01</lastmod>"
            f"</sitemap><sitemap><loc>{HOME}/new.xml</loc></sitemap></sitemapindex>",
            "/new.xml": f"<urlset>{pages}</urlset>",
        }
    )
    found, _, report = await walk(site, START, since=datetime(2026, 2, 15, 12, tzinfo=UTC))
    assert [url.rpartition("/")[2] for url in found] == ["day", "new", "month", "odd", "silent"]
    assert report.skipped == {"older": 2, "older file": 1}
    assert f"{HOME}/old.xml" not in site.asked
    naive, _, _ = await walk(site, START, since=datetime(2026, 2, 15, 12))
    assert naive == found


async def test_pages_of_other_hosts_are_refused_with_their_place():
    site = Site(
        {
            "/sitemap.xml": urlset(
                f"{HOME}/a", "https://evil.test/b", "https://b.a.test/c", "https://a.test:8443/d"
            )
        }
    )
    found, refusals, report = await walk(site, START)
    assert found == [f"{HOME}/a"]
    assert report.skipped == {"another host": 3}
    assert refusals[0].where == f"{START} entry 2"
    assert refusals[0].text == "https://evil.test/b"
    assert "another host" in refusals[0].reason


async def test_http_and_https_and_www_are_one_host():
    site = Site({"/sitemap.xml": urlset("http://a.test/1", "https://www.a.test/2")})
    assert (await walk(site, START))[0] == ["http://a.test/1", "https://www.a.test/2"]


async def test_hosts_that_are_allowed_are_taken():
    site = Site({"/sitemap.xml": urlset("https://b.a.test/1", "https://evil.test/2")})
    assert (await walk(site, START, hosts=["*.A.test"]))[0] == ["https://b.a.test/1"]
    assert len((await walk(site, START, hosts=["*"]))[0]) == 2
    assert "https://b.a.test/robots.txt" not in site.asked[: site.asked.index("https://evil.test/robots.txt")]


async def test_a_host_whose_robots_txt_names_the_sitemap_lets_it_speak():
    site = Site(
        {
            "/sitemap.xml": index(f"{HOME}/1.xml"),
            "/1.xml": urlset(*[f"https://b.test/{n}" for n in range(3)], "https://c.test/"),
            "https://b.test/robots.txt": f"Sitemap: {START}",
            "https://c.test/robots.txt": "Sitemap: https://c.test/own.xml",
        }
    )
    found, _, report = await walk(site, START)
    assert found == [f"https://b.test/{n}" for n in range(3)]
    assert report.skipped == {"another host": 1}
    assert site.asked.count("https://b.test/robots.txt") == 1


async def test_a_sitemap_elsewhere_that_a_site_names_speaks_for_the_site():
    site = Site(
        {
            "/robots.txt": "Sitemap: https://cdn.test/a.xml",
            "https://cdn.test/a.xml": urlset(f"{HOME}/a", "https://x.test/"),
        }
    )
    found, refusals, _ = await walk(site, HOME)
    assert found == [f"{HOME}/a"]
    assert len(refusals) == 1


async def test_an_index_cannot_send_us_to_other_hosts():
    site = Site({"/sitemap.xml": index("https://evil.test/s.xml", "http://127.0.0.1/s.xml")})
    _, refusals, report = await walk(site, START)
    assert len(refusals) == 2
    assert report.skipped == {"another host": 2}
    assert "https://evil.test/s.xml" not in site.asked


async def test_only_so_many_hosts_are_asked_for_their_robots_txt():
    site = Site({"/sitemap.xml": urlset(*[f"https://h{n}.test/" for n in range(200)])})
    await walk(site, START)
    assert len(site.asked) == 1 + MAX_ROBOTS


@pytest.mark.parametrize(
    ("loc", "reason"),
    [
        ("file:///etc/passwd", "its scheme is 'file'"),
        ("gopher://a.test/", "its scheme is 'gopher'"),
        ("javascript:alert(1)", "its scheme is 'javascript'"),
        ("https://user:secret@a.test/", "it contains a user name"),
        (f"https://a.test/{'x' * 9000}", "it has"),
        ("", "the entry has no URL"),
        ("not a url", "it is neither a URL nor a path"),
        ("page.html", "it is neither a URL nor a path"),
    ],
)
async def test_addresses_that_cannot_be_fetched_are_refused(loc, reason):
    for kind in (urlset, index):
        site = Site({"/sitemap.xml": kind(loc)})
        found, (refusal,), report = await walk(site, START)
        assert found == []
        assert refusal.reason.startswith(reason)
        assert "secret" not in refusal.text
        assert report.skipped.total() == 1
        assert len(site.asked) == 1


async def test_a_path_alone_is_read_as_on_the_sitemaps_own_host():
    site = Site({"/sitemap.xml": urlset("/a", "//a.test/b")})
    assert (await walk(site, START))[0] == [f"{HOME}/a", f"{HOME}/b"]


async def test_an_index_that_names_itself_is_read_once_and_reported():
    site = Site({"/sitemap.xml": index(*[START] * 1_000, f"{HOME}/1.xml"), "/1.xml": urlset(f"{HOME}/a")})
    found, _, report = await walk(site, START)
    assert found == [f"{HOME}/a"]
    assert site.asked.count(START) == 1
    assert report.skipped == {"loop": 1_000}
    assert report.problems == [Problem(START, f"it lists {START}, one of its parents: a loop")]


async def test_a_circle_of_index_files_ends_and_is_reported():
    site = Site(
        {"/sitemap.xml": index(f"{HOME}/b.xml"), "/b.xml": index(f"{HOME}/c.xml"), "/c.xml": index(START)}
    )
    _, _, report = await walk(site, START)
    assert site.asked == [START, f"{HOME}/b.xml", f"{HOME}/c.xml"]
    assert problems(report) == {"/c.xml": f"it lists {START}, one of its parents: a loop"}


async def test_a_file_that_is_named_twice_is_read_once():
    site = Site({"/sitemap.xml": index(f"{HOME}/1.xml", f"{HOME}/1.xml#x"), "/1.xml": urlset(f"{HOME}/a")})
    found, _, report = await walk(site, START, START)
    assert found == [f"{HOME}/a"]
    assert report.skipped == {"named twice": 2}


async def test_a_redirect_to_a_file_that_was_read_is_reported():
    site = Site(
        {
            "/sitemap.xml": index(f"{HOME}/1.xml", f"{HOME}/2.xml"),
            "/1.xml": urlset(f"{HOME}/a"),
            "/2.xml": Response(url=f"{HOME}/1.xml", status=200, body=urlset(f"{HOME}/a").encode()),
        }
    )
    found, _, report = await walk(site, START)
    assert found == [f"{HOME}/a"]
    assert problems(report) == {"/2.xml": f"it redirects to {HOME}/1.xml, which was already read"}


async def test_where_a_typed_sitemap_leads_is_meant_but_not_where_an_index_leads():
    moved = Response(url="https://new.test/s.xml", status=200, body=urlset("https://new.test/a").encode())
    assert (await walk(Site({"/sitemap.xml": moved}), START))[0] == ["https://new.test/a"]
    site = Site({"/sitemap.xml": index(f"{HOME}/1.xml"), "/1.xml": moved})
    assert (await walk(site, START))[0] == []


async def test_index_files_are_followed_ten_deep():
    pages = {f"/{n}.xml": index(f"{HOME}/{n + 1}.xml") for n in range(20)}
    site = Site(pages)
    _, _, report = await walk(site, f"{HOME}/0.xml")
    assert len(site.asked) == 11
    assert report.skipped == {"too deep": 1}
    assert problems(report) == {"/10.xml": "it is 10 index files deep; the sitemaps it lists are not read"}


async def test_only_so_many_files_are_read(monkeypatch):
    monkeypatch.setattr("shoal.discover.sitemaps.walk.MAX_FILES", 10)
    names = [f"{HOME}/{n}.xml" for n in range(50)]
    site = Site({"/sitemap.xml": index(*names)} | {f"/{n}.xml": urlset(f"{HOME}/{n}") for n in range(50)})
    found, _, report = await walk(site, START)
    assert len(found) == 9
    assert report.skipped == {"too many files": 41}
    assert problems(report) == {"/sitemap.xml": "the limit of 10 files is reached"}


async def test_only_so_many_urls_are_taken(monkeypatch):
    monkeypatch.setattr("shoal.discover.sitemaps.walk.MAX_URLS", 10)
    site = Site({"/sitemap.xml": urlset(*[f"{HOME}/{n}" for n in range(50)])})
    found, _, report = await walk(site, START)
    assert len(found) == report.urls == 10
    assert problems(report) == {"/sitemap.xml": "the limit of 10 URLs is reached; the walk ends"}


async def test_the_urls_of_files_must_be_short_for_many_of_them_wait():
    site = Site({"/sitemap.xml": index(f"{HOME}/{'x' * 3_000}.xml")})
    _, _, report = await walk(site, START)
    assert len(site.asked) == 1
    assert report.problems[0].reason == "the URL of a sitemap may have at most 2,048 bytes"


async def test_a_file_that_is_too_large_is_left_off_and_named(monkeypatch):
    monkeypatch.setattr("shoal.discover.sitemaps.walk.MAX_BYTES", 100_000)
    site = Site({"/sitemap.xml": urlset(*[f"{HOME}/{n}" for n in range(50_000)])})
    found, _, report = await walk(site, START)
    assert 0 < len(found) < 50_000
    assert problems(report)["/sitemap.xml"].startswith("it has more than 100,000 bytes; its first")


async def test_a_start_that_is_no_url_is_refused_at_once():
    with pytest.raises(InvalidUrl):
        sitemaps(Site({}), "nonsense")


def test_a_report_lists_only_so_many_problems():
    report = SitemapReport()
    for number in range(MAX_PROBLEMS + 5):
        report.note(str(number), "x")
    assert (len(report.problems), report.unlisted) == (MAX_PROBLEMS, 5)

"""The contents of sitemap files, including hostile ones."""

import gzip
import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import ParseFailed, TooLarge
from shoal.discover.sitemaps.parse import MAX_DEPTH, MAX_MEDIA, MAX_TEXT, entries_of
from tests.unit.discover.site import index, urlset

MIB = 1 << 20
MOST = 50 * MIB


def read(body, most=MOST):
    data = body if isinstance(body, bytes) else body.encode()
    return [entry for batch in entries_of(data, most) for entry in batch]


def locs(body):
    return [entry.loc for entry in read(body)]


def failure(body, most=MOST):
    """Return why a file could not be read completely, and the entries before the error."""
    found = []
    with pytest.raises((ParseFailed, TooLarge)) as error:
        for batch in entries_of(body if isinstance(body, bytes) else body.encode(), most):
            found += batch
    return str(error.value), [entry.loc for entry in found]


def test_a_sitemap_names_pages_and_an_index_names_sitemaps():
    assert [
        (entry.loc, entry.is_sitemap) for entry in read(urlset("https://a.test/1", "https://a.test/2"))
    ] == [
        ("https://a.test/1", False),
        ("https://a.test/2", False),
    ]
    assert [(entry.loc, entry.is_sitemap) for entry in read(index("https://a.test/s.xml"))] == [
        ("https://a.test/s.xml", True)
    ]


@pytest.mark.parametrize(
    "body",
    [
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="x"><url><loc>\n https://a.test/é \n'
        "</loc></url></urlset>",
        "\n  \n<?xml version='1.0'?><urlset><url><loc>https://a.test/é</loc></url></urlset>",
        "\ufeff\n<urlset><url><loc><![CDATA[https://a.test/é]]></loc></url></urlset>",
        "<s:urlset xmlns:s='x'><s:url><s:loc>https://a.test/é</s:loc></s:url></s:urlset>",
        "<urlset><url><image:image><image:loc>x</image:loc></image:image><loc>https://a.test/é</loc></url></urlset>",
        "<urlset><url><loc>https://a.test/&#233;</loc><x><loc>y</loc></x></url></urlset>",
        '<!DOCTYPE urlset SYSTEM "http://x/y.dtd"><urlset><url><loc>https://a.test/é</loc></url></urlset>',
        "<?xml version='1.0' encoding='iso-8859-1'?><urlset><url><loc>https://a.test/é</loc></url></urlset>".encode(
            "latin-1"
        ),
        "<?xml version='1.0' encoding='utf-16'?><urlset><url><loc>https://a.test/é</loc></url></urlset>".encode(
            "utf-16"
        ),
        gzip.compress("<urlset><url><loc>https://a.test/é</loc></url></urlset>".encode(), mtime=0),
        "\ufeffhttps://a.test/é\r\n\r\n",
        gzip.compress("\nhttps://a.test/é".encode(), mtime=0),
    ],
)
def test_a_page_is_found_however_its_file_is_written(body):
    assert locs(body) == ["https://a.test/é"]


def test_what_an_entry_says_beside_its_address_is_its_payload():
    (entry,) = read(
        """<urlset xmlns:news="n" xmlns:image="i" xmlns:video="v"><url><loc>https://a.test/1</loc>
        <lastmod> 2026-02-15 </lastmod><priority>0.5</priority>
        <news:news><news:publication><news:name>The Test</news:name><news:language>en</news:language>
        </news:publication><news:publication_date>2026-02-14</news:publication_date>
        <news:title>A &amp; B</news:title></news:news>
        <image:image><image:loc>https://a.test/1.png</image:loc><image:title>no</image:title></image:image>
        <image:image><image:loc>https://a.test/2.png</image:loc></image:image>
        <video:video><video:title>One</video:title><video:content_loc>https://a.test/1.mp4</video:content_loc>
        </video:video><video:video><video:title>Two</video:title></video:video>
        </url></urlset>"""
    )
    assert entry.payload() == {
        "lastmod": "2026-02-15",
        "news": {"publication": "The Test", "language": "en", "date": "2026-02-14", "title": "A & B"},
        "images": ["https://a.test/1.png", "https://a.test/2.png"],
        "videos": [{"title": "One", "content_loc": "https://a.test/1.mp4"}, {"title": "Two"}],
    }


def test_a_page_with_thousands_of_images_keeps_a_few():
    images = "<image><loc>https://a.test/i.png</loc></image><video><title>t</title></video>" * 5_000
    (entry,) = read(f"<urlset><url><loc>https://a.test/</loc>{images}</url></urlset>")
    assert (len(entry.more["images"]), len(entry.more["videos"])) == (MAX_MEDIA, MAX_MEDIA)


def test_an_entry_without_an_address_is_kept_as_such():
    assert locs("<urlset><url><lastmod>2026</lastmod></url><url><loc> </loc></url></urlset>") == ["", ""]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b" \n ", "it is empty"),
        ("<!DOCTYPE html><html><body>x</body></html>", "it is an HTML page, not a sitemap"),
        ("<rss><channel/></rss>", "it is a feed, not a sitemap. Read it with: --feed URL"),
        ("<opml/>", "its root element is <opml>, so it is not a sitemap"),
        ('{"error": 1}', "it is neither XML nor a list of URLs"),
        (bytes(1000), "it is neither XML nor a list of URLs"),
        ("not found", "it is neither XML nor a list of URLs"),
        (
            gzip.compress(gzip.compress(b"<urlset/>", mtime=0), mtime=0),
            "it is neither XML nor a list of URLs",
        ),
        ("<?xml version='1.0' encoding='utf-ate'?><urlset/>", "broken XML"),
        ("<?xml version='1.0' encoding='big5'?><urlset/>", "broken XML"),
    ],
)
def test_what_is_no_sitemap_is_named(body, reason):
    assert failure(body)[0].startswith(reason)


def test_broken_xml_is_named_and_what_came_before_is_kept():
    good = "".join(f"<url><loc>https://a.test/{number}</loc></url>" for number in range(3))
    reason, found = failure(f"<urlset>{good}<url><loc>https://a.test/?a&b</loc></url></urlset>")
    assert reason.startswith("broken XML: not well-formed (invalid token): line 1")
    assert found == [f"https://a.test/{number}" for number in range(3)]
    reason, found = failure(f"<urlset>{good}")
    assert reason.startswith("broken XML: no element found")
    assert len(found) == 3


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "doctype",
    [
        f'[<!ENTITY l0 "lol">{LAUGHS}]',
        f'[<!ENTITY a "{"x" * 10_000}">]',
        '[<!ENTITY x SYSTEM "file:///etc/passwd">]',
        '[<!ENTITY x PUBLIC "x" "http://127.0.0.1/">]',
        '[<!ENTITY % x SYSTEM "http://127.0.0.1/x.dtd"> %x;]',
        '[<!ENTITY x SYSTEM "x" NDATA gif>]',
        '[<!ATTLIST urlset x CDATA "y">]',
        "[<!ELEMENT urlset ANY>]",
        '[<!NOTATION gif SYSTEM "x">]',
        'SYSTEM "x" [<!ENTITY x "y">]',
    ],
)
def test_declarations_of_entities_and_the_like_are_refused_unread(doctype):
    body = f"<!DOCTYPE urlset {doctype}><urlset><url><loc>https://a.test/&x;&l9;</loc></url></urlset>"
    assert failure(body) == (
        "its DOCTYPE declares entities or elements, as XML bombs do",
        [],
    )


def test_an_external_dtd_is_not_asked_for_and_its_entities_are_nothing():
    body = '<!DOCTYPE urlset SYSTEM "http://127.0.0.1/"><urlset><url><loc>https://a.test/&x;</loc></url></urlset>'
    assert locs(body) == ["https://a.test/"]


TOO_LARGE = "it has more than 52,428,800 bytes"
TOO_LONG = "it has a tag or comment of more than 1,048,576 bytes"
MANY_NAMES = "its tags have more than 1,000 different names"


def many(piece, count):
    return b"<urlset>" + b"".join(piece % number for number in range(count))


# Created on demand, because together they are large.
HOSTILE = {
    "depth": (lambda: b"<urlset>" + b"<a>" * (4 * MIB), f"its tags are nested more than {MAX_DEPTH} deep"),
    "names": (lambda: many(b"<a%d/>", 300_000), MANY_NAMES),
    "attributes": (lambda: many(b"<a b%d=''/>", 300_000), MANY_NAMES),
    "many attributes of one": (lambda: b"<urlset><a " + many(b"b%d='' ", 2_000_000)[8:], TOO_LONG),
    "tag": (lambda: b"<urlset><a " + b"x" * (20 * MIB), TOO_LONG),
    "comment": (lambda: b"<urlset><!--" + b"x" * (20 * MIB), TOO_LONG),
    "brackets": (lambda: b"<urlset>" + b"<" * (4 * MIB), "broken XML"),
    "text": (lambda: b"<urlset><url><loc>" + b"x" * (60 * MIB), TOO_LARGE),
    "blank": (lambda: b" " * (60 * MIB), TOO_LARGE),
    "gzip of blanks": (lambda: gzip.compress(b" " * (60 * MIB), mtime=0), TOO_LARGE),
    "gzip of text": (lambda: gzip.compress(b"<urlset>" + b"x" * (60 * MIB), mtime=0), TOO_LARGE),
    "list without ends": (lambda: b"https://a.test/" + b"x" * (60 * MIB), TOO_LARGE),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_left_off_in_little_time_and_memory(name):
    make, reason = HOSTILE[name]
    body = make()
    tracemalloc.start()
    started = time.process_time()
    found = failure(body)[0]
    seconds = time.process_time() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.startswith(reason)
    assert peak < 24 * MIB
    assert seconds < 20


def test_a_list_that_grows_too_large_keeps_what_came_before():
    reason, found = failure("https://a.test/1\nhttps://a.test/2\n" + "\n" * (2 * MIB), most=MIB)
    assert reason == "it has more than 1,048,576 bytes"
    assert found == ["https://a.test/1", "https://a.test/2"]


def test_an_address_without_end_is_cut_beyond_what_a_url_may_have():
    (entry,) = read(f"<urlset><url><loc>https://a.test/{'x' * 100_000}</loc></url></urlset>")
    assert MAX_TEXT <= len(entry.loc) < 100_000


@given(st.text("<>/&;!-[]? urlsetoc\"'=abc", max_size=60))
def test_any_text_is_read_or_refused(text):
    with suppress(ParseFailed):
        read(f"<urlset>{text}")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    for each in (body, gzip.compress(body, mtime=0)):
        with suppress(ParseFailed):
            read(each)

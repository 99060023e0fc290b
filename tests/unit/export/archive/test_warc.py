"""WARC recordings: readable by other tools, by us, and after a crash."""

import asyncio
import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from shoal.core.errors import ExportFailed, InvalidSetting, TooLarge
from shoal.core.http import Headers, Hop, Request, Response
from shoal.export.archive.warc import WarcWriter
from shoal.export.archive.warc_read import WarcArchive

SITE = "https://shop.test"
MOST = 1 << 20


def make_response(path, body=b"page", status=200, hops=(), fields=()):
    url = f"{SITE}{path}"
    return Response(url=url, status=status, headers=Headers(fields), body=body, hops=hops)


def make_request(path, **headers):
    return Request(url=f"{SITE}{path}", headers=headers)


async def record(file, *responses, headers=None):
    """Write a recording and return its name."""
    writer = WarcWriter.open(file, user_agent="shoal-test/1", run_id="r1")
    for response in responses:
        first = response.hops[0].url if response.hops else response.url
        await writer.write(Request(url=first, headers=headers or {}), response)
    await writer.close()
    return Path(writer.name)


def records(file):
    """Return type, URL, HTTP head and body of each record."""
    with file.open("rb") as stream:
        return [
            (
                found.rec_type,
                found.rec_headers.get_header("WARC-Target-URI"),
                found.http_headers,
                found.content_stream().read(),
                found.rec_headers,
            )
            for found in ArchiveIterator(stream)
        ]


def is_valid(file):
    """Check the file with warcio's own command."""
    command = [sys.executable, "-c", "from warcio.cli import main; main()", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode == 0 and not done.stdout


@pytest.fixture
def file(tmp_path):
    return tmp_path / "crawl.warc.gz"


async def test_an_exchange_is_a_pair_of_records_that_warcio_can_check(file):
    await record(file, make_response("/a?b=1", b"<p>hello", fields=[("content-type", "text/html")]))
    info, response, request = records(file)
    assert info[0] == "warcinfo" and b"software: shoal/" in info[3] and b"isPartOf: r1" in info[3]
    assert response[:2] == ("response", f"{SITE}/a?b=1")
    assert (response[2].statusline, response[2].get_header("content-type")) == ("200 OK", "text/html")
    assert response[3] == b"<p>hello"
    assert request[:2] == ("request", f"{SITE}/a?b=1")
    assert request[2].to_str().splitlines()[:3] == [
        "GET /a?b=1 HTTP/1.1",
        "Host: shop.test",
        "User-Agent: shoal-test/1",
    ]
    concurrent = request[4].get_header("WARC-Concurrent-To")
    assert concurrent == response[4].get_header("WARC-Record-ID")
    assert is_valid(file)


async def test_each_redirect_has_its_own_records(file):
    hops = tuple(
        Hop(url=f"{SITE}/{name}", status=301, headers=Headers([("location", to), ("content-length", "99")]))
        for name, to in (("one", "/two"), ("two", "/three"))
    )
    await record(file, make_response("/three", b"there", hops=hops))
    found = [(kind, url, head.statusline) for kind, url, head, *_ in records(file) if kind == "response"]
    assert found == [
        ("response", f"{SITE}/one", "301 Moved Permanently"),
        ("response", f"{SITE}/two", "301 Moved Permanently"),
        ("response", f"{SITE}/three", "200 OK"),
    ]
    assert is_valid(file)
    kept = WarcArchive(file, max_body=MOST)
    assert (kept.find(f"{SITE}/one").headers["location"], kept.first) == ("/two", f"{SITE}/one")


async def test_a_repeated_payload_is_written_once_and_read_twice(file):
    body = bytes(range(256)) * 400
    await record(
        file,
        make_response("/a", body),
        make_response("/b", body),
        make_response("/c", b""),
        make_response("/d", b""),
    )
    kinds = [kind for kind, *_ in records(file) if kind != "request"]
    assert kinds == ["warcinfo", "response", "revisit", "response", "response"]
    kept = WarcArchive(file, max_body=MOST)
    assert kept.find(f"{SITE}/b").body == kept.find(f"{SITE}/a").body == body
    assert is_valid(file)


async def test_a_304_response_is_a_revisit_and_does_not_hide_the_page(file):
    await record(file, make_response("/a", b"page"), make_response("/a", b"", status=304))
    assert [kind for kind, *_ in records(file) if kind != "request"][-1] == "revisit"
    assert WarcArchive(file, max_body=MOST).find(f"{SITE}/a").body == b"page"
    assert is_valid(file)


async def test_the_last_of_several_responses_counts(file):
    await record(file, make_response("/a", b"busy", status=503), make_response("/a", b"page"))
    assert WarcArchive(file, max_body=MOST).find(f"{SITE}/a").status == 200


async def test_credentials_are_not_recorded(file):
    secret = {"Authorization": "Bearer s3cret", "Cookie": "id=s3cret", "X-Api-Key": "s3cret", "X-Shown": "y"}
    await record(file, make_response("/a"), headers=secret)
    text = gzip.decompress(file.read_bytes())
    assert b"s3cret" not in text and b"X-Shown: y" in text


async def test_unusual_headers_are_recorded(file):
    odd = [
        ("x-odd", "caf\xe9 \xff"),
        ("transfer-encoding", "chunked"),
        ("content-encoding", "gzip"),
        ("empty", ""),
        ("dash", "a\u2013b"),
        ("half", "a\udce9"),
    ]
    await record(file, make_response("/a", b"plain", fields=odd))
    found = WarcArchive(file, max_body=MOST).find(f"{SITE}/a")
    assert found.body == b"plain"
    assert found.headers["x-odd"].encode("latin-1", "replace")[:3] == b"caf"
    assert is_valid(file)


async def test_a_file_is_never_overwritten_and_numbered_files_are_read_together(file):
    one = await record(file, make_response("/a", b"A"))
    two = await record(file, make_response("/b", b"B"))
    assert (one.name, two.name) == ("crawl.warc.gz", "crawl-2.warc.gz")
    for place in (file, file.parent):
        kept = WarcArchive(place, max_body=MOST)
        assert (kept.find(f"{SITE}/a").body, kept.find(f"{SITE}/b").body) == (b"A", b"B")


async def test_wherever_the_file_is_cut_off_the_earlier_records_can_be_read(file, tmp_path):
    await record(file, *(make_response(f"/{number}", b"%d" % number * 50) for number in range(4)))
    whole = file.read_bytes()
    cut = tmp_path / "cut.warc.gz"
    counts = []
    for length in range(len(whole), 0, -7):
        cut.write_bytes(whole[:length])
        try:
            kept = WarcArchive(cut, max_body=MOST)
        except InvalidSetting:
            counts.append(0)
            continue
        counts.append(len(kept))
        for number in range(len(kept)):
            assert kept.find(f"{SITE}/{number}").body == b"%d" % number * 50
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 4 and counts[-1] == 0


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", gzip.compress(b"nonsense", mtime=0), b"WARC/1.0\r\n\r\n"]
)
def test_a_file_that_is_not_a_recording_is_reported(tmp_path, content):
    file = tmp_path / "x.warc.gz"
    file.write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"x\.warc\.gz"):
        WarcArchive(file, max_body=MOST)


def test_a_missing_recording_is_reported(tmp_path):
    for place in (tmp_path / "x.warc.gz", tmp_path):
        with pytest.raises(InvalidSetting, match="found no recording"):
            WarcArchive(place, max_body=MOST)


async def test_a_recorded_decompression_bomb_is_rejected(file):
    await record(file, make_response("/a", bytes(200_000)))
    with pytest.raises(TooLarge):
        WarcArchive(file, max_body=100_000).find(f"{SITE}/a")


async def test_a_full_disk_is_reported():
    file = Path("/dev/full")
    descriptor = os.open(file, os.O_WRONLY)
    with pytest.raises(ExportFailed, match="No space left"):
        WarcWriter(descriptor, str(file), about={})
    os.close(descriptor)


async def test_a_disk_that_fills_up_keeps_the_earlier_records_and_writing_continues_afterwards(
    file, monkeypatch
):
    writer = WarcWriter.open(file, user_agent="shoal")
    await writer.write(make_request("/a"), make_response("/a", b"A"))
    whole, write = file.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: _half_then_full(write, descriptor, data))
    with pytest.raises(ExportFailed):
        await writer.write(make_request("/b"), make_response("/b", b"B"))
    monkeypatch.undo()
    assert file.read_bytes() == whole
    await writer.write(make_request("/c"), make_response("/c", b"B"))
    await writer.close()
    kept = WarcArchive(file, max_body=MOST)
    assert (len(kept), kept.find(f"{SITE}/c").body) == (2, b"B")
    assert is_valid(file)


def _half_then_full(write, descriptor, data):
    if len(data) < 100:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write(descriptor, data[: len(data) // 2])


async def test_many_exchanges_at_once_do_not_mix(file):
    writer = WarcWriter.open(file, user_agent="shoal")
    paths = [f"/{number}" for number in range(60)]
    await asyncio.gather(
        *(writer.write(make_request(path), make_response(path, path.encode() * 99)) for path in paths)
    )
    await writer.close()
    kept = WarcArchive(file, max_body=MOST)
    assert all(kept.find(f"{SITE}{path}").body == path.encode() * 99 for path in paths)
    assert is_valid(file)

"""Sitemaps over the real fetcher, from a server on this machine."""

import gzip
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from shoal.core.model import ZERO, Task
from shoal.discover.sitemaps.walk import Sitemaps
from shoal.fetch.contract import Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine


class Server(ThreadingHTTPServer):
    """A server that does not mind when a client has seen enough."""

    def handle_error(self, *_):
        pass


@pytest.fixture
def pages():
    """What the server answers, by path: a body, or a redirect to a path."""
    return {}


@pytest.fixture
def home(pages):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200 if isinstance(page, bytes) else 302)
            if isinstance(page, str):
                self.send_header("Location", page)
            body = page if isinstance(page, bytes) else b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
async def fetcher():
    fetcher = open_engine(
        limits=Limits(max_body=50 << 20), egress=Egress(["127.0.0.0/8"]), user_agent="shoal-test/1.0"
    )
    yield fetcher
    await fetcher.close()


def urlset(*locs):
    return f"<urlset>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>".encode()


async def test_a_site_is_walked_from_its_robots_txt_to_its_pages(home, pages, fetcher):
    pages |= {
        "/robots.txt": f"Sitemap: {home}/moved.xml".encode(),
        "/moved.xml": "/index.xml",
        "/index.xml": f"<sitemapindex><sitemap><loc>{home}/1.xml.gz</loc></sitemap><sitemap>"
        f"<loc>{home}/2.txt</loc></sitemap><sitemap><loc>{home}/3.xml</loc></sitemap></sitemapindex>".encode(),
        "/1.xml.gz": gzip.compress(urlset(f"{home}/a", "http://169.254.169.254/latest")),
        "/2.txt": f"{home}/b\n".encode(),
    }
    source = Sitemaps(fetcher.fetch, home, delay=ZERO)
    found = [each async for each in source]
    assert [each.url for each in found if isinstance(each, Task)] == [f"{home}/a", f"{home}/b"]
    assert source.report.skipped == {"another host": 1}
    assert [(problem.url, problem.reason) for problem in source.report.problems] == [
        (f"{home}/3.xml", "status 404")
    ]


async def test_a_body_that_the_fetcher_refuses_is_named(home, pages, fetcher):
    pages["/sitemap.xml"] = b" " * (51 << 20)
    source = Sitemaps(fetcher.fetch, f"{home}/sitemap.xml", delay=ZERO)
    assert [each async for each in source] == []
    assert "52,428,800" in source.report.problems[0].reason

"""A local shop of books for the spiders of the tests; it logs every request."""

import asyncio
import gzip
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise

from aiohttp import web

LISTS, PER_LIST, AUTHORS = 9, 6, 7


class BookSite:
    """The pages, and what was requested: the time, the path and the run of each request."""

    def __init__(self):
        self.requests, self.url, self.delay = [], "", 0.0
        self.plain_items = {}  # that plain Scrapy gives, by spider and options
        self._failed, self._sessions = Counter(), set()

    def count(self, run):
        return sum(name == run for _, _, name in self.requests)

    def gaps(self, run):
        times = sorted(at for at, _, name in self.requests if name == run)
        return [later - earlier for earlier, later in pairwise(times)]

    async def handle(self, request):
        self.requests.append((time.monotonic(), request.path, request.headers.get("X-Run", "")))
        if self.delay:
            await asyncio.sleep(self.delay)
        kind, _, name = request.path.strip("/").partition("/")
        page = getattr(self, f"show_{kind.partition('.')[0]}", None)
        if page is None:
            raise web.HTTPNotFound
        return await page(request, name)

    async def show_list(self, request, name):
        number = int(name)
        books = [(number * PER_LIST + index) % (LISTS * PER_LIST) for index in range(PER_LIST + 3)]
        links = "".join(f'<a class="book" href="/book/{book}?from={number}">b</a>' for book in books)
        following = f'<a class="next" href="/list/{number + 1}">next</a>' if number < LISTS else ""
        return html(f'{links}{following}<a href="/private/1">p</a><a href="http://elsewhere.invalid/">e</a>')

    async def show_book(self, request, name):
        number = int(name)
        price = "0" if number % 11 == 0 else f"{number}.50"
        author = f'<a class="author" href="/author/{number % AUTHORS}">a</a>'
        cover = f'<a class="cover" href="/cover/{number % 5}">c</a>'
        return html(f'<h1> Book {number} </h1><p class="price">{price}</p>{author}{cover}')

    async def show_author(self, request, name):
        return html(f"<h1>Author {name}</h1>")

    async def show_cover(self, request, name):
        return web.Response(body=name.encode() * 100, content_type="image/png")

    async def show_name(self, request, name):
        return web.json_response({"name": name})

    async def show_echo(self, request, name):
        return web.json_response(await request.json())

    async def show_cookies(self, request, name):
        response = web.json_response(dict(request.cookies))
        response.set_cookie("of_site", "1")
        return response

    async def show_robots(self, request, name):
        return web.Response(text="User-agent: *\nDisallow: /private/\n")

    async def show_sitemap(self, request, name):
        parts = "".join(f"<sitemap><loc>{self.url}/part/{part}</loc></sitemap>" for part in ("1", "2.gz"))
        return xml(f"<sitemapindex>{parts}</sitemapindex>".encode())

    async def show_part(self, request, name):
        books = range(12) if name == "1" else range(6, 20)
        urls = [f"/book/{number}" for number in books] + ["/author/3"]
        body = f"<urlset>{''.join(f'<url><loc>{self.url}{url}</loc></url>' for url in urls)}</urlset>"
        return web.Response(body=gzip.compress(body.encode())) if name != "1" else xml(body.encode())

    async def show_flaky(self, request, name):
        number, key = int(name), (request.headers.get("X-Run"), name)
        self._failed[key] += 1
        if number % 3 == 0 and self._failed[key] == 1:
            return web.Response(status=500)
        if number % 7 == 0:
            return web.Response(status=404)
        return web.json_response({"value": f"v{number}"})

    async def show_redirect(self, request, name):
        number = int(name)
        raise web.HTTPFound(f"/redirect/{number - 1}" if number % 3 else f"/book/{number}")

    async def show_login(self, request, name):
        if request.method == "GET":
            token = f"t{time.monotonic_ns()}"
            field = f'<input type="hidden" name="token" value="{token}">'
            response = html(f'<form method="post">{field}<input name="user"><input name="password"></form>')
            response.set_cookie("token", token)
            return response
        form = await request.post()
        if form.get("token") != request.cookies.get("token") or form.get("password") != "secret":
            return web.Response(status=403)
        session = f"s{time.monotonic_ns()}"
        self._sessions.add(session)
        response = web.HTTPFound("/members/0")
        response.set_cookie("session", session)
        raise response

    async def show_members(self, request, name):
        if request.cookies.get("session") not in self._sessions:
            return web.Response(status=401)
        return html(f"<h1>Member {name}</h1>")


def html(body):
    return web.Response(text=f"<html><body>{body}</body></html>", content_type="text/html")


def xml(body):
    return web.Response(body=b'<?xml version="1.0"?>' + body, content_type="application/xml")


@contextmanager
def serve():
    """Serve the site from a thread of this process."""
    site, loop, ready = BookSite(), asyncio.new_event_loop(), threading.Event()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.handle)
    runner = web.AppRunner(app, access_log=None)

    async def start():
        await runner.setup()
        listener = web.TCPSite(runner, "127.0.0.1", 0)
        await listener.start()
        site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()

    def work():
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)

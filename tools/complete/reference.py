"""A small crawler that shares no code with Shoal: what can be reached from a page, and nothing else."""

from collections import deque
from html.parser import HTMLParser
from http.client import HTTPConnection
from urllib.parse import unquote, urljoin, urlsplit

MAX_PAGES = 20_000


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href is None:
            return
        if tag == "base" and self.base is None:
            self.base = href
        elif tag == "a":
            self.hrefs.append(href)


def reachable(start: str) -> set[str]:
    """Return the names of all files that links lead to from a page, on its host."""
    host = urlsplit(start).netloc
    connection = HTTPConnection(host)
    waiting, asked, found = deque([start]), {start}, set[str]()
    while waiting and len(asked) <= MAX_PAGES:
        url = waiting.popleft()
        parts = urlsplit(url)
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        body = response.read()
        if response.status in (301, 302):
            links = [response.headers["Location"]]
        elif response.status == 200:
            found.add(name_of(url))
            links = _links(body, response.headers.get_content_type())
        else:
            continue
        for link in links:
            target = urljoin(url, link).partition("#")[0].replace(" ", "%20")
            if target.startswith("http") and urlsplit(target).netloc == host and target not in asked:
                asked.add(target)
                waiting.append(target)
    connection.close()
    return found


def name_of(url: str) -> str:
    """Return the name of the file that a URL leads to, however the URL is written."""
    return unquote(urlsplit(url).path) or "/"


def _links(body: bytes, kind: str) -> list[str]:
    if "html" not in kind:
        return []
    parser = _Links()
    parser.feed(body.decode("utf-8", "replace"))
    parser.close()
    base = parser.base
    hrefs = [href.strip().replace("\\", "/") for href in parser.hrefs]  # as browsers read them
    return [urljoin(base, href) for href in hrefs] if base else hrefs

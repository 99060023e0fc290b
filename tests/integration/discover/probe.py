"""Reads a source in a process of its own, and says what that took: python -m …discover.probe KIND ARG."""

import asyncio
import json
import resource
import sys
import time
from collections import Counter
from typing import Any

from shoal.core.http import Request, Response
from shoal.core.model import ZERO
from shoal.discover.files.files import UrlFile
from shoal.discover.sitemaps.walk import Sitemaps
from tests.integration.discover.making import HOME, gzip_bomb, index, sitemap

URLS = 5_000

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
HOSTILE = {
    "laughs": f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]><urlset><url><loc>&l9;</loc></url></urlset>',
    "entity": '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><urlset><url><loc>&e;</loc></url></urlset>',
    "itself": f"<sitemapindex><sitemap><loc>{HOME}/itself</loc></sitemap></sitemapindex>",
    "elsewhere": "<urlset><url><loc>https://evil.test/</loc></url></urlset>",
    "gzip": gzip_bomb(b"<urlset>", 1024),
    "gzip-list": gzip_bomb(f"{HOME}/a\n".encode(), 1024),
    "good": f"<urlset><url><loc>{HOME}/good</loc></url></urlset>",
}


def files(path: str) -> dict[str, Any]:
    return {"found": Counter(type(found).__name__ for found in UrlFile(path))}


async def tree(count: str) -> dict[str, Any]:
    async def fetch(request: Request) -> Response:
        name = request.url.removeprefix(f"{HOME}/").removesuffix(".xml.gz")
        body = index(int(count)) if name == "index" else sitemap(int(name), URLS)
        return Response(url=request.url, status=200, body=body)

    source = Sitemaps(fetch, f"{HOME}/index", delay=ZERO)
    seen = 0
    async for _ in source:
        seen += 1
    return {"seen": seen, "urls": source.report.urls, "files": source.report.files}


async def hostile(_: str) -> dict[str, Any]:
    async def fetch(request: Request) -> Response:
        page = HOSTILE.get(request.url.removeprefix(f"{HOME}/"))
        body = page.encode() if isinstance(page, str) else page or b""
        return Response(url=request.url, status=200 if body else 404, body=body)

    source = Sitemaps(fetch, *(f"{HOME}/{name}" for name in HOSTILE), delay=ZERO)
    urls = [getattr(found, "url", None) async for found in source]
    problems = {problem.url: problem.reason for problem in source.report.problems}
    return {"urls": urls, "problems": problems, "skipped": source.report.skipped}


def main(kind: str, argument: str) -> None:
    before, started = _peak(), time.process_time()
    answer = (
        files(argument)
        if kind == "files"
        else asyncio.run({"tree": tree, "hostile": hostile}[kind](argument))
    )
    seconds = time.process_time() - started
    print(json.dumps({**answer, "seconds": seconds, "grown": _peak() - before, "peak": _peak()}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main(*sys.argv[1:])

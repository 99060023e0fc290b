"""The bare loop: aiohttp, selectolax and uvloop, everything in memory, nothing kept but the output."""

import asyncio
import json
import sys
from collections import deque
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import aiohttp
import uvloop
from selectolax.lexbor import LexborHTMLParser

CONCURRENCY = 64


async def crawl(task: str, urls: list[str], out: str) -> None:
    """Fetch the URLs, and in task B everything of their site that they lead to."""
    origin = urls[0].rpartition("/")[0] + "/" if task == "B" else ""
    waiting, seen, busy = deque(urls), set(urls), 0
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    with Path(out).open("w", encoding="utf-8") as lines:
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work() -> None:
                nonlocal busy
                while waiting or busy:
                    if not waiting:
                        await asyncio.sleep(0.01)
                        continue
                    url = waiting.popleft()
                    busy += 1
                    await one(url)
                    busy -= 1

            async def one(url: str) -> None:
                async with session.get(url) as response:
                    page = LexborHTMLParser(await response.text())
                anchors = page.css("a[href]")
                title = page.css_first("title").text(strip=True)
                lines.write(json.dumps({"url": url, "title": title, "links": len(anchors)}) + "\n")
                if task == "B":
                    for anchor in anchors:
                        link = urldefrag(urljoin(url, anchor.attributes["href"])).url
                        if link.startswith(origin) and link not in seen:
                            seen.add(link)
                            waiting.append(link)

            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


if __name__ == "__main__":
    task, file, out = sys.argv[1:]
    uvloop.run(crawl(task, Path(file).read_text().split(), out))

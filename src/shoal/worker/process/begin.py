"""What a worker that is started ahead does before it may begin: all that nobody notices if it never does.

Its launcher enqueues the seeds meanwhile. If they are refused, the worker is killed, and nothing is closed.
"""

import asyncio
import socket
import time
from datetime import timedelta

from shoal.scrape.scraper import HTTP_ONLY, Scraper
from shoal.worker.ipc.protocol import BEGIN


def opens_unnoticed(scraper: Scraper) -> bool:
    """Return whether a worker may open all it works with before it begins.

    Hooks are the user's code; the others write files or notes, reserve something, or start a process.
    """
    settings = scraper.settings
    writes = settings.cache or settings.warc or settings.playback or settings.files
    has_proxies = settings.tor or settings.proxies or settings.sites.proxies
    reserves = has_proxies or settings.sessions or settings.tokens
    is_recrawl = settings.recrawl or settings.again is not None
    has_hooks = scraper.hooks.start or scraper.hooks.finish or scraper.login_function
    downloads = any(step.may_download for step in scraper.steps.values())
    is_plain = scraper.fetchers <= HTTP_ONLY
    return is_plain and not (writes or reserves or is_recrawl or has_hooks or downloads)


async def wait_for_begin(sock: socket.socket) -> timedelta:
    """Wait until the seeds are enqueued, and return how long; raises EOFError if the launcher ends before."""
    loop, since = asyncio.get_running_loop(), time.monotonic()
    sock.setblocking(False)
    while (message := await loop.sock_recv(sock, 1)) != BEGIN:
        if not message:
            raise EOFError("the supervisor closed the channel before the worker could begin")
    return timedelta(seconds=time.monotonic() - since)

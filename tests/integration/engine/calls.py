"""A scraper for tests of calls on demand, and what they look at."""

import asyncio
from pathlib import Path

PAGES = """
    import asyncio, os
    from pathlib import Path

    pages = Scraper("pages", rate=None, robots=False, retries=1, allow_private="127.0.0.0/8")

    @pages.step
    async def page(page: Page):
        if page.url.endswith("/poison"):
            os._exit(7)
        if page.url.endswith("/long"):
            with Path(__file__).with_name("holders").open("a") as holders:
                holders.write(f"{os.getpid()}\\n")
            await asyncio.sleep(0.5)
        yield {"title": page.text("title"), "pid": os.getpid()}
        for link in page.links():
            yield page.follow(link)
"""


async def stored(app, run):
    return [item.data async for item in app.queue.items(run.id)]


async def first_holder(folder):
    """Wait until a worker has the long page in its hands, and return its process."""
    holders = Path(folder) / "holders"
    async with asyncio.timeout(10):
        while not (holders.exists() and holders.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return int(holders.read_text().split()[0])

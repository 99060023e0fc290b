"""Developers in three stages: found by a search, profiled by an API, enhanced from their pages."""

from shoal import Page, Scraper, Task

SITE = "http://127.0.0.1:8800"  # the site of `shoal demo --serve`

scraper = Scraper(
    "myscraper",
    rate="20/s",
    start=[f"{SITE}/people"],
    tokens={"from": "env", "hosts": SITE},  # SHOAL_TOKENS, in .env
)


@scraper.step
async def search(page: Page):
    data = page.json()
    for login in data["logins"]:
        # The same key in every stage: a record enters each of them once.
        yield Task(url=f"/people/{login}", step=profile, key=login)
    yield page.follow(data["next"])


@scraper.step(lease="2m", retries=5)
async def profile(page: Page):
    person = page.json()
    # Stored together: this stage is done, and the next one has its task.
    yield Task(url=f"{page.url}/links", step=enhance, key=person["login"], payload=person)


@scraper.step
async def enhance(page: Page):
    yield {**page.payload, "links": [link.attr("href") for link in page.css("a[rel=me]")]}

"""Developers in three stages, as many copies of each as you like: search, profile, links."""

from shoal import Page, Scraper, Task

API = "http://127.0.0.1:8811"  # examples/profiles/site.py
PAGES = "http://127.0.0.1:8812"

people = Scraper(
    "people",
    rate=None,  # the tokens decide
    start=[f"{API}/people"],
    tokens={"from": "env", "hosts": API},  # SHOAL_TOKENS: as many as you have, separated by commas
    allow_private=["127.0.0.1"],
    lease="30s",  # a machine that dies: its records are free again after 30 seconds at most
)


@people.step
async def search(page: Page):
    data = page.json()
    for login in data["logins"]:
        yield Task(url=f"/people/{login}", step=profile, key=login)
    yield page.follow(data["next"])


@people.step(lease="15s", retries=5)  # an attempt that hangs is aborted after 15 seconds
async def profile(page: Page):
    person = page.json()
    yield Task(url=f"{PAGES}/people/{person['login']}/links", step=links, key=person["login"], payload=person)


@people.step
async def links(page: Page):
    found = {link.text(): link.attr("href") for link in page.css("a[rel=me]")}
    yield {**page.payload, "links": found}

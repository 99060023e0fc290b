"""Tasks of two types for a social network. They carry a payload; their steps know where to ask."""

from shoal import Page, Scraper, Task

API = "http://127.0.0.1:8851"  # examples/social/site.py

social = Scraper("social", rate="10/s", allow_private=["127.0.0.1"], lease="10s")


class UserGone(Exception):
    """The account no longer exists."""


@social.step(fetch=None)
async def profile(task: Task):
    name = task.payload["username"]
    found = checked(await social.request(f"{API}/users/{name}"), name)
    yield {"type": "profile", **found.json()}


@social.step(fetch=None)
async def followers(task: Task):
    name, limit = task.payload["username"], task.payload.get("limit", 1_000)
    names: list[str] = []
    number: int | None = 1
    while number and len(names) < limit:
        found = checked(await social.request(f"{API}/users/{name}/followers", params={"page": number}), name)
        names += found.json()["followers"]
        number = found.json()["next"]
    yield {"type": "followers", "username": name, "followers": names[:limit]}


def checked(page: Page, name: str) -> Page:
    """Return the page of a request that went well; other errors are tried again."""
    if page.status == 410:
        raise UserGone(name)
    if page.status != 200:
        raise ConnectionError(f"status {page.status} for {name}")
    return page

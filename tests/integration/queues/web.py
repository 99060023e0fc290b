"""A web of numbered pages, known in advance to everybody: where each lies, and what it links to."""

HOSTS = 400


def page_url(page: int, hosts: int = HOSTS) -> str:
    return f"https://h{page % hosts}.example/{page}"


def links(url: str, pages: int) -> list[int]:
    """Return the pages that one links to, within a web of so many pages."""
    page = int(url.rpartition("/")[2])
    return [(page * 2 + n) % pages for n in (1, 2, 3)]


def reachable(seeds: range, pages: int) -> set[int]:
    """Return every page that can be reached from the seeds."""
    found, todo = set(seeds), list(seeds)
    while todo:
        fresh = set(links(page_url(todo.pop()), pages)) - found
        found |= fresh
        todo += fresh
    return found

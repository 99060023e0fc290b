"""The addresses of a made-up crawl; needs nothing installed, so that peers can use it too."""

HOSTS = 1_000

_DIGITS = 13


def url(number: int, hosts: int) -> str:
    """Return the sixty characters of a page's address; neighbouring numbers lie on different hosts."""
    return f"https://www.shop-{number % hosts:06d}.example/catalogue/page/{number:0{_DIGITS}d}"


def host(number: int) -> str:
    """Return the host that the queue will see for a number below the number of hosts."""
    return f"www.shop-{number:06d}.example"


def page_number(address: str) -> int:
    """Return the number that the address was made of."""
    return int(address[-_DIGITS:])

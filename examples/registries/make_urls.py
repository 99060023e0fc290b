"""Writes the file of India's URLs: python make_urls.py 1000000

A hundredth of the lines are spelled in another way and name a page that the file has; two are no URLs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

SITE = "http://127.0.0.1:8825"


def lines(count: int) -> Iterator[str]:
    """Return the lines for a number of medicines."""
    for number in range(1, count + 1):
        yield f"{SITE}/drug/{number}"
        if number % 100 == 0:
            yield f"{SITE}/x/../drug/{number}#facts"
    yield "drug 17"
    yield "ftp://127.0.0.1/drug/18"


def main() -> None:
    with Path("urls.txt").open("w") as file:
        file.writelines(f"{line}\n" for line in lines(int(sys.argv[1])))


if __name__ == "__main__":
    main()

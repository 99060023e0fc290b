"""Read title and number of links of every page in a folder; print those on which all crawlers can agree."""

import json
import sys
from pathlib import Path
from urllib.parse import quote

from parsel import Selector
from selectolax.lexbor import LexborHTMLParser

MAX_CHARACTERS = 8_000_000  # Shoal parses no longer pages


def read(text: str) -> tuple[str, int] | None:
    """Return the title and the number of links; None if the parsers disagree, or the crawlers would.

    Scrapy follows a page that refreshes itself, and Shoal refuses to parse a very long one.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    page, other = LexborHTMLParser(text), Selector(text=text)
    title = page.css_first("title")
    found = (title.text(strip=True) if title else "", len(page.css("a[href]")))
    same = ((other.css("title::text").get() or "").strip(), len(other.css("a[href]")))
    # Odd spaces are left out: some tools make them plain ones, others do not.
    is_plain = found[0] and found[0] == " ".join(found[0].split())
    stays = page.css_first("meta[http-equiv=refresh i]") is None
    return found if found == same and is_plain and stays else None


def main(folder: Path) -> None:
    """Print the truths as JSON."""
    truths = []
    for file in sorted(folder.rglob("*.html")):
        try:
            found = read(file.read_bytes().decode())
        except UnicodeDecodeError:
            continue
        path = f"/{file.relative_to(folder)}"
        if found and path == quote(path):
            truths.append({"path": path, "title": found[0], "links": found[1]})
    json.dump(truths, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

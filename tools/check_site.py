"""Look whether the pages of a site load anything from elsewhere: scripts, styles, fonts, pictures, frames."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# Where a tag names what is loaded at once. A link that a reader may follow is none of these.
LOADS = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
HARMLESS = frozenset({"author", "canonical", "help", "license", "next", "prev", "search"})
_ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class Loads(HTMLParser):
    """Collects what a page loads from other servers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += _IN_STYLE.findall(given.get("style") or "")
        if tag == "link" and HARMLESS.issuperset((given.get("rel") or "").split()):
            return
        for name in LOADS.get(tag, ()):
            places = [place.split()[0] for place in (given.get(name) or "").split(",") if place.strip()]
            self.found += [place for place in places if _ELSEWHERE.match(place)]

    def handle_data(self, data: str) -> None:
        if self.get_starttag_text() and (self.get_starttag_text() or "").lower().startswith("<style"):
            self.found += _IN_STYLE.findall(data)


def from_elsewhere(text: str, suffix: str) -> list[str]:
    """Return the addresses on other servers that a file of a site loads."""
    if suffix == ".css":
        return _IN_STYLE.findall(text)
    page = Loads()
    page.feed(text)
    return page.found


def problems(site: Path) -> Iterator[str]:
    """Yield what the files of a site load from elsewhere."""
    for file in sorted(site.rglob("*")):
        if file.suffix in (".css", ".html", ".svg"):
            for place in from_elsewhere(file.read_text(), file.suffix):
                yield f"{file.relative_to(site)} loads {place}"


def main() -> int:
    """Check the site that is named; return 1 if it is none, or loads something."""
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.stderr.write(f"error: {site} holds no index.html. Run: make docs\n")
        return 1
    found = list(problems(site))
    sys.stderr.write("".join(f"error: {line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

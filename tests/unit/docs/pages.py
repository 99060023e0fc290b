"""The pages of the documentation, and what stands in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
ALL = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")),
]
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<code>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A block of code: the language it is marked with, and its text without the indent of its list."""

    language: str
    code: str


def name_of(page: Path) -> str:
    """Return a page's path from the root of the repository."""
    return str(page.relative_to(ROOT))


def blocks(text: str, language: str | None = None) -> list[Block]:
    """Return the blocks of code in a page, of all languages or of one."""
    found = [Block(block["language"], _dedented(block)) for block in _BLOCK.finditer(text)]
    return [block for block in found if language in (None, block.language)]


def spans(text: str) -> list[str]:
    """Return what stands in code within lines."""
    return _SPAN.findall(_BLOCK.sub("", text))


def links(text: str) -> Iterator[str]:
    """Yield where the links of a page lead, those in code left out."""
    yield from _LINK.findall(re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text)))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    return {_slug(heading) for heading in _HEADING.findall(_BLOCK.sub("", text))}


def rows(text: str, head: str) -> list[list[str]]:
    """Return the rows of the table that begins with this line, a list of cells each."""
    table = text.partition(f"{head}\n")[2].partition("\n\n")[0]
    assert table, f"no table begins with {head!r}"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


def recorded(name: str) -> list[str]:
    """Return what the crawl benchmark recorded of one in task A: pages/s, start to end, CPU, store's CPU."""
    page = (DOCS / "reference" / "results.md").read_text()
    lines = page.partition("| task A |")[2].partition("\n\n")[0].splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:5]


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _dedented(block: re.Match[str]) -> str:
    return re.sub(rf"^{block['indent']}", "", block["code"], flags=re.MULTILINE)

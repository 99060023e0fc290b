"""How these pages become a site: `make docs`."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")

project = html_title = "Shoal"
extensions = ["myst_parser"]
root_doc = "README"
nitpicky = True
smartquotes = False  # two hyphens begin an option here
highlight_language = "text"
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_use_index = html_show_sphinx = html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Have pages read as the site needs them."""
    app.connect("source-read", _read)
    app.connect("build-finished", _open_at_index)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    text = source[0]
    if page == root_doc:
        text += "".join(_navigation(text))
    source[0] = LINK.sub(lambda link: _within(page, link), text)


def _within(page: str, link: re.Match[str]) -> str:
    """Return a link, or only its words where it leads to a folder or out of these pages: no site has that."""
    words, target = link.groups()
    place = ((HERE / page).parent / target.partition("#")[0]).resolve()
    leads_out = place.is_dir() or (place.exists() and not place.is_relative_to(HERE))
    return words if leads_out and not target.startswith("#") else link[0]


def _navigation(index: str) -> Iterator[str]:
    """Yield a table of contents for each section of the index, in its order."""
    for section in index.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        pages = [target for _, target in LINK.findall(section) if re.fullmatch(r"[\w/-]+(\.md|/)", target)]
        entries = "\n".join(f"{page}*" if page.endswith("/") else page.removesuffix(".md") for page in pages)
        yield f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n\n{entries}\n```\n"


def _open_at_index(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        shutil.copyfile(app.outdir / "README.html", app.outdir / "index.html")

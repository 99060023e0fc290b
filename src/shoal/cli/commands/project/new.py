"""`shoal new`: create a project from a template."""

import keyword
import shutil
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from shoal.cli.console import print_error, say
from shoal.cli.exits import Exit
from shoal.core.model import NOTHING
from shoal.core.version import VERSION
from shoal.scrape.settings.scraper import ScraperSettings

# The word for the project in the templates, in the names of files too.
PLACEHOLDER = "myscraper"
# Under their real names these would apply to Shoal's own checkout.
DOTFILES = {"gitignore": ".gitignore", "dockerignore": ".dockerignore", "env": ".env"}
COMPILED = "__pycache__"
PROPOSED = "proposed"  # the template of --from


def write_project(
    template: str,
    folder: Path,
    name: str,
    *,
    words: Mapping[str, str] = NOTHING,
    more: Mapping[str, bytes] = NOTHING,
) -> None:
    """Create the folder of a project; it appears complete or not at all.

    The words of a template are replaced; more files are written as they are.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    with as_file(files("shoal").joinpath("templates", "projects")) as templates:
        for part in ("common", template):
            _copy(templates / part, unfinished, name, words)
    for path, content in more.items():
        place = unfinished / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    unfinished.rename(folder)


def _copy(source: Path, target: Path, name: str, words: Mapping[str, str]) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_dir() or COMPILED in file.parts:
            continue
        place = target / file.relative_to(source)
        place = place.with_name(DOTFILES.get(place.name, place.name.replace(PLACEHOLDER, name)))
        place.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8")
        for word, meant in {PLACEHOLDER: name, "SHOAL_VERSION": VERSION, **words}.items():
            text = text.replace(word, meant)
        place.write_text(text, encoding="utf-8")
        if place.name == ".env":
            place.chmod(0o600)


class ProjectTemplate(StrEnum):
    """The folders of `shoal/templates/projects`."""

    SHOP = "shop"
    SITEMAP = "sitemap"
    API = "api"
    BROWSER = "browser"
    LOGIN = "login"


def new(
    folder: Annotated[
        Path,
        typer.Argument(metavar="NAME", help="Folder to create; its name is also the name of the scraper."),
    ],
    template: Annotated[
        ProjectTemplate, typer.Option("--template", "-t", help="Template to start from; listed above.")
    ] = ProjectTemplate.SHOP,
    url: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Propose the scraper from this page: its items, their fields, the next page.",
            metavar="URL",
        ),
    ] = None,
) -> None:
    """Create a project: a scraper that runs as it is, its tests, shoal.toml, README and Dockerfile.

    \b
    shop     categories, their pages, each product; items are validated
    sitemap  the pages that sitemaps list; later runs fetch only new ones
    api      a JSON API in pages, with several tokens and their rate limits
    browser  pages that need JavaScript, in Chromium
    login    pages behind a login form with a CSRF token

    Every template scrapes the site that `shoal demo --serve` serves. With --from, the page is fetched, and
    the page of its first item, and the scraper is proposed from what they repeat and from their structured
    data; the page is saved for the test.

    Example: shoal new prices --from https://shop.example/lamps
    """
    name = folder.name.replace("-", "_")
    if trouble := _trouble(folder, name):
        print_error(trouble)
        raise typer.Exit(Exit.USAGE)
    where = quote(str(folder))
    if url is not None:
        _write_proposed(url, folder, name)
        return
    write_project(template, folder, name)
    say(
        f"Created {where} from the template {template}. Try it:\n"
        f"  shoal demo --serve            # in another terminal: a site to practise on\n"
        f"  cd {where}\n"
        f"  shoal run {name} --out {name}.jsonl\n"
        f"  python -m pytest\n"
        f"README.md says how to make it yours."
    )


def _write_proposed(url: str, folder: Path, name: str) -> None:
    """Create a project whose scraper is proposed from a page, and say what that gives."""
    from shoal.cli.shell.session import ShellSession
    from shoal.starter.project import propose_scraper

    session = ShellSession(ScraperSettings())
    proposed = propose_scraper(name, session.load(url), session.load)
    words = {"SHOAL_URL": proposed.url, "(0, 0)": f"({proposed.items}, {proposed.links})"}
    more = {f"{name}.py": proposed.code.encode(), "tests/pages/start.html": proposed.body}
    write_project(PROPOSED, folder, name, words=words, more=more)
    where = quote(str(folder))
    say(f"Created {where} from {proposed.url}. {proposed.says}")
    say(
        f"Read {where}/{name}.py, check its selectors, and try it:\n"
        f"  cd {where}\n"
        f"  shoal run {name} --out {name}.jsonl\n"
        f"  python -m pytest"
    )


def _trouble(folder: Path, name: str) -> str | None:
    """Return why a project cannot be created, and what to type; None if it can."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        return f"{folder.name!r} cannot be a scraper's name: use letters, digits and _. Run: shoal new shop"
    if name == "tests" or find_spec(name):
        other = quote(str(folder.with_name(f"{name}_scraper")))
        return f"{name!r} is the name of a Python module, which {name}.py would hide. Run: shoal new {other}"
    if folder.exists() or folder.is_symlink():
        other = quote(str(folder.with_name(f"{folder.name}2")))
        return f"{quote(str(folder))} already exists. Use another name: shoal new {other}"
    return None

"""Finds Scrapy projects and spiders for `load_scraper`; Scrapy is imported only if there is one."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from shoal.core.errors import InvalidInput
from shoal.registry.extras import install_command

if TYPE_CHECKING:
    from shoal.scrape.scraper import Scraper

CONFIG = "scrapy.cfg"


def from_folder(folder: Path, name: str) -> "Scraper | None":
    """Return the scraper of a spider in a project; None if the folder has none."""
    if not (folder / CONFIG).is_file():
        return None
    _check_installed(f"{folder / CONFIG} is a Scrapy project")
    from shoal.scrapy.project import ScrapyProject

    return ScrapyProject.read(folder.resolve()).scraper(name)


def from_module(module: ModuleType, name: str) -> "Scraper | None":
    """Return the scraper of a spider that a file defines; None if it defines none."""
    if "scrapy" not in sys.modules:
        return None
    from shoal.scrapy.project import spiders_of, standalone

    spiders = spiders_of(module)
    return standalone(module, spiders, name) if spiders else None


def _check_installed(what: str) -> None:
    if find_spec("scrapy") is None:
        raise InvalidInput(f"{what}, which needs Scrapy. Run: {install_command('scrapy')}")

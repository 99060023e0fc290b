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
    """Return the scraper of a spider in a project, also from a folder within it; None if there is none."""
    home = home_of(folder.resolve())
    if home is None:
        return None
    if find_spec("scrapy") is None:
        raise InvalidInput(f"{home / CONFIG} needs Scrapy. Run: {install_command('scrapy')}")
    from shoal.scrapy.project import ScrapyProject

    project = ScrapyProject.read(home)
    # Within a project a name may also be that of a module.
    return project.scraper(name) if home == folder.resolve() or name in project.names() else None


def home_of(folder: Path) -> Path | None:
    """Return the folder of the project that a folder belongs to, as Scrapy finds it."""
    return next((one for one in (folder, *folder.parents) if (one / CONFIG).is_file()), None)


def from_module(module: ModuleType, name: str) -> "Scraper | None":
    """Return the scraper of a spider that a file defines; None if it defines none."""
    if "scrapy" not in sys.modules:
        return None
    from shoal.scrapy.project import spiders_of, standalone

    spiders = spiders_of(module)
    home = home_of(Path(module.__file__).resolve().parent) if module.__file__ else None
    return standalone(module, spiders, name, home) if spiders else None

"""How a scraper is found: in a file, or in a module that can be imported."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from shoal.core.errors import InvalidInput
from shoal.scrape.scraper import Scraper


def load_scraper(where: str) -> Scraper:
    """Return the scraper that "books.py", "books.py:books" or "package.module:books" means; raises InvalidInput."""
    place, name = _split(where)
    module = _from_file(Path(place)) if _is_file(place) else _from_module(place)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Scraper)}
    if name:
        return _named(place, name, found)
    return _only(place, found)


def _split(where: str) -> tuple[str, str]:
    place, colon, name = where.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        return where, ""
    return place, name


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _named(place: str, name: str, found: dict[str, Scraper]) -> Scraper:
    for key, scraper in found.items():
        if name in (key, scraper.name):
            return scraper
    close = get_close_matches(name, found, n=1)
    hint = f"Did you mean {place}:{close[0]}?" if close else f"It has {', '.join(found) or 'none at all'}."
    raise InvalidInput(f"{place} has no scraper called {name!r}. {hint}")


def _only(place: str, found: dict[str, Scraper]) -> Scraper:
    distinct = {id(scraper): key for key, scraper in reversed(found.items())}
    if len(distinct) == 1:
        return next(iter(found.values()))
    if not found:
        raise InvalidInput(f"{place} has no scraper. Write in it: books = Scraper('books')")
    names = ", ".join(f"{place}:{key}" for key in sorted(distinct.values()))
    raise InvalidInput(f"{place} has several scrapers. Name one: {names}")


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}. Check the path, or make one with: shoal new")
    # The same in every process, so that what the file defines can be told apart and found again.
    name = f"shoal_scraper_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file; its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _on_path(path.parent), _explained(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_module(name: str) -> ModuleType:
    with _on_path(Path.cwd()), _explained(name):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                hint = f"To load a file, write {name}.py" if "." not in name else "Check its spelling"
                raise InvalidInput(f"There is no module {name!r}. {hint}") from error
            raise


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    place = str(folder)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        if place in sys.path:
            sys.path.remove(place)


@contextmanager
def _explained(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput:
        raise
    except SyntaxError as error:
        raise InvalidInput(f"{place} is not valid Python: {error.msg} (line {error.lineno})") from error
    except Exception as error:
        raise InvalidInput(f"{place} could not be imported: {type(error).__name__}: {error}") from error

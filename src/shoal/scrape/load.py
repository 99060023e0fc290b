"""Load a scraper from a file or an importable module."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Protocol

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten
from shoal.registry.extras import install_command
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call
from shoal.scrape.scraper import Scraper
from shoal.scrape.seeds import user_code


class ScraperLoader(Protocol):
    """A module that finds scrapers of another kind, such as the spiders of a Scrapy project."""

    def from_folder(self, folder: Path, name: str) -> Scraper | None:
        """Return the scraper of this name in a project's folder; None if it is no such project."""
        ...

    def from_module(self, module: ModuleType, name: str) -> Scraper | None:
        """Return the scraper of this name that a module without a `Scraper` defines; None if it has none."""
        ...


def _read_loader(value: object) -> ScraperLoader:
    for name in ("from_folder", "from_module"):
        check_call(getattr(value, name, None), 2, f"a loader has the function {name}(place, name)")
    return value  # type: ignore[return-value]


LOADERS: Registry[ScraperLoader] = Registry(
    "shoal.loaders",
    "loader",
    {"scrapy": lambda: _read_loader(import_module("shoal.scrapy.loader"))},
    _read_loader,
)
KNOWN_EXTRAS = ("scrapy",)  # modules that scrapers import, and that an extra of the same name installs
_loading: ContextVar[bool] = ContextVar("loading", default=False)


def is_loading() -> bool:
    """Return whether the code that calls this is being imported by `load_scraper`."""
    return _loading.get()


def load_scraper(where: str) -> Scraper:
    """Return the scraper that "books.py", "books.py:books" or "package.module:books" names.

    Loaders are asked for a folder, a name in the current folder, and a module without a scraper.

    Raises InvalidInput, which says what to type, if the file or module cannot be found or imported.
    """
    place, name = _split(where)
    token = _loading.set(True)
    try:
        if loaded := _load_from_folder(place, name):
            return loaded
        module = _from_file(Path(place)) if _is_file(place) else _from_module(place)
        found = {key: value for key, value in vars(module).items() if isinstance(value, Scraper)}
        if not found and (loaded := _ask_loaders(lambda loader: loader.from_module(module, name))):
            return loaded
    finally:
        _loading.reset(token)
    return _find_by_name(place, name, found) if name else _only(place, found)


def _load_from_folder(place: str, name: str) -> Scraper | None:
    if Path(place).is_dir() and (loaded := _ask_loaders(lambda one: one.from_folder(Path(place), name))):
        return loaded  # else a package may have the name of a spider
    if name or _is_file(place):
        return None
    return _ask_loaders(lambda loader: loader.from_folder(Path.cwd(), place))


def _ask_loaders(ask: Callable[[ScraperLoader], Scraper | None]) -> Scraper | None:
    """Return what the first loader finds that finds something."""
    loaders = (loader for name in LOADERS.names() if (loader := LOADERS.find(name)))
    return next((found for loader in loaders if (found := ask(loader))), None)


def locate_scraper(scraper: Scraper) -> str:
    """Return where `load_scraper` finds a scraper of this process, such as "/work/books.py:books".

    Raises InvalidInput if workers could not load it: it must be a name of a file or a module.
    """
    if not isinstance(scraper, Scraper):
        raise InvalidInput(f"A scraper is a name, a file or a Scraper, got {shorten(repr(scraper))}")
    homes = {step.function.__module__ for step in scraper.steps.values()} & sys.modules.keys()
    for module in [sys.modules[name] for name in homes]:
        for name, value in vars(module).items():
            if value is scraper:
                file = getattr(module, "__file__", None)
                if module.__package__ and module.__name__ != "__main__":
                    return f"{module.__name__}:{name}"  # as a file it could not import its neighbours
                if file and Path(file).is_file():
                    return f"{Path(file).resolve()}:{name}"
                raise InvalidInput(
                    f"Workers load {scraper.name!r} from a file, and it was defined without one, as in a "
                    f"notebook. Write it to {scraper.name}.py, then pass that: app.start('{scraper.name}.py')"
                )
    raise InvalidInput(
        f"Workers load {scraper.name!r} by its name from a file, and no module that defines its steps has it "
        f"as a variable. Write {scraper.name} = Scraper(…) at the top level, or pass the file's name"
    )


def _split(where: str) -> tuple[str, str]:
    place, colon, name = where.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # the colon follows a drive letter
        return where, ""
    return place, name


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _find_by_name(place: str, name: str, found: dict[str, Scraper]) -> Scraper:
    for key, scraper in found.items():
        if name in (key, scraper.name):
            return scraper
    close = get_close_matches(name, found, n=1)
    hint = f"Did you mean {place}:{close[0]}?" if close else f"It has {', '.join(found) or 'none at all'}."
    raise InvalidInput(f"{place} has no scraper called {name!r}. {hint}")


def _only(place: str, found: dict[str, Scraper]) -> Scraper:
    distinct = {id(scraper): key for key, scraper in found.items()}
    if len(distinct) == 1:
        return next(iter(found.values()))
    if not found:
        raise InvalidInput(f"{place} has no scraper. Write in it: books = Scraper('books')")
    names = ", ".join(f"{place}:{key}" for key in sorted(distinct.values()))
    raise InvalidInput(f"{place} has several scrapers. Name one: {names}")


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        name = path.stem if path.stem.isidentifier() else "shop"
        raise InvalidInput(
            f"There is no file {path}. Check the path, or make a project with: shoal new {name}"
        )
    path = path.resolve()
    # The same name in every process, so that a class of the file has one qualified name.
    name = f"shoal_scraper_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file; its name must end in .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        with _on_path(path.parent), _explain_errors(path.name, str(path)), user_code():
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _from_module(name: str) -> ModuleType:
    with _on_path(Path.cwd()), _explain_errors(name, ""), user_code():
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module exists, but something that it imports does not
            hint = f"For a file, write: {name}.py"
            if "." in name:
                hint = f"Check its spelling, or for a page of the web, write: https://{name}"
            raise InvalidInput(f"There is no module {name!r}. {hint}") from error


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
def _explain_errors(name: str, path: str) -> Iterator[None]:
    """Turn any exception of an import into an InvalidInput with the line to look at."""
    try:
        yield
    except SyntaxError as error:
        raise InvalidInput(f"{name} is not valid Python: line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        if isinstance(error, InvalidInput) and not path:
            raise
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == path]
        line = f", line {lines[-1]}" if lines else ""
        reason = shorten(f"{type(error).__name__}: {error}", 300)
        if isinstance(error, RuntimeError) and "asyncio.run" in reason:
            reason += '. Put what starts a run under: if __name__ == "__main__":'
        if isinstance(error, ModuleNotFoundError) and error.name in KNOWN_EXTRAS:
            reason += f". Run: {install_command(error.name)}"
        raise InvalidInput(f"{name} could not be imported{line}: {reason}") from error

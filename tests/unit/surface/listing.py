"""The public surface, one line for each name: what users import, type, configure and read from JSON.

Run this file to store it: python -m tests.unit.surface.listing
"""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import msgspec
import typer.main

from shoal.cli.exits import Exit
from shoal.cli.registry import app_for
from shoal.fleet.app import App
from shoal.fleet.handle import RunHandle
from shoal.fleet.status import rows
from shoal.fleet.status.rows.row import Row
from shoal.scrape.settings.scraper import SETTINGS
from shoal.script.result import RunResult
from shoal.web.app import make_app
from shoal.web.context import WebSettings
from tests.unit.web.tokens import OPERATOR

STORED = Path(__file__).with_name("surface.txt")
MODULES = ("shoal", "shoal.plugins", "shoal.scrapy", "shoal.testing")
RETURNED = (App, RunHandle, RunResult)  # not imported by users, but what they call


def lines() -> list[str]:
    """Return the surface as sorted lines."""
    return sorted({*_imports(), *_commands(), *_routes(), *_settings(), *_exits(), *_rows()})


def _imports() -> Iterator[str]:
    for module in map(import_module, MODULES):
        for name in getattr(module, "__all__", None) or _own_names(module):
            yield from _describe(f"python {module.__name__}.{name}", getattr(module, name))
    for one in RETURNED:
        yield from _describe(f"python {one.__name__}", one)


def _own_names(module: Any) -> list[str]:
    found = vars(module).items()
    return [name for name, one in found if getattr(one, "__module__", "") == module.__name__]


def _describe(path: str, one: Any) -> Iterator[str]:
    if not inspect.isclass(one):
        yield f"{path}{_parameters(one)}"
        return
    yield f"{path}{_parameters(one)}"
    for name in dir(one):
        if not name.startswith("_") and _is_ours(one, name):
            member = inspect.getattr_static(one, name)
            callable_ = getattr(one, name) if not isinstance(member, property) else None
            yield f"{path}.{name}{_parameters(callable_) if inspect.isroutine(callable_) else ''}"


def _is_ours(one: type, name: str) -> bool:
    homes = [base for base in one.__mro__ if name in vars(base)]
    return bool(homes) and homes[0].__module__.partition(".")[0] == "shoal"


def _parameters(one: Any) -> str:
    """Return the names of parameters, as a call writes them; a default is shown only by `=`."""
    if inspect.isclass(one) and issubclass(one, msgspec.Struct):
        return f"(*, {', '.join(one.__struct_fields__)})"
    try:
        found = inspect.signature(one).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown, is_keyword = [], False
    for each in found:
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            shown.append("*")
        is_keyword = is_keyword or each.kind is each.VAR_POSITIONAL
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown.append(f"{stars}{each.name}{'' if each.default is each.empty else '='}")
    return f"({', '.join(shown)})"


def _commands() -> Iterator[str]:
    yield from _command("shoal", typer.main.get_command(app_for()))


def _command(path: str, command: Any) -> Iterator[str]:
    for each in command.params:
        words = "/".join([*each.opts, *each.secondary_opts])
        yield f"cli {path} {words if words.startswith('-') else words.upper()}"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(f"{path} {name}", inner)


def _routes() -> Iterator[str]:
    app = SimpleNamespace(queue=None, schedules=SimpleNamespace(all=None))
    context: Any = SimpleNamespace(app=app, settings=WebSettings.read(operator_token=OPERATOR))
    schema = make_app(context).openapi()
    for path, methods in schema["paths"].items():
        for method, found in methods.items():
            names = sorted(one["name"] for one in found.get("parameters", ()))
            yield f"api {method.upper()} {path} {' '.join(names)}".rstrip()
    for name, found in schema["components"]["schemas"].items():
        yield f"api {name}: {' '.join(sorted(found.get('properties', found.get('enum', ()))))}"


def _settings() -> Iterator[str]:
    for name in SETTINGS:
        yield f"setting {name}"


def _exits() -> Iterator[str]:
    for one in Exit:
        yield f"exit {one.value} {one.name}"


def _rows() -> Iterator[str]:
    for file in iter_modules(rows.__path__):
        module = import_module(f"{rows.__name__}.{file.name}")
        for one in vars(module).values():
            if inspect.isclass(one) and issubclass(one, Row) and is_dataclass(one):
                yield f"json {one.__name__}: {' '.join(each.name for each in fields(one))}"


if __name__ == "__main__":
    STORED.write_text("\n".join(lines()) + "\n")

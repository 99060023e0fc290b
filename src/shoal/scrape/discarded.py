"""Finds links and downloads that a step creates and does not yield: they would be lost without a message."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

YIELDED = ("follow", "download")  # methods of a page whose result has an effect only if it is yielded
MESSAGE = "step {step!r} calls {call}(…) without yield ({place}), which does nothing. Write: yield {call}(…)"


def discarded_calls(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield a message for each such call in the function; none if its source cannot be read."""
    function = inspect.unwrap(function)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        page = next(iter(inspect.signature(function).parameters))
    except (OSError, TypeError, ValueError, SyntaxError, StopIteration):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=method))):
                if found == page and method in YIELDED:
                    place = f"{Path(function.__code__.co_filename).name}:{first + node.lineno - 1}"
                    yield MESSAGE.format(step=name, call=f"{page}.{method}", place=place)

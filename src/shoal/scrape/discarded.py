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
        call = node.value if isinstance(node, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr not in YIELDED:
            continue
        if isinstance(method.value, ast.Name) and method.value.id == page:
            place = f"{Path(function.__code__.co_filename).name}:{first + method.lineno - 1}"
            yield MESSAGE.format(step=name, call=f"{page}.{method.attr}", place=place)

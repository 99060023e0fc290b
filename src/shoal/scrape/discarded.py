"""Finds links and downloads that a step creates and does not yield: they would be lost without a message."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

YIELDED = ("follow", "download")  # methods of a page whose result has an effect only if it is yielded
MESSAGE = "step {step!r} calls {call}(…) without yield ({place}), which does nothing. Write: yield {call}(…)"


def discarded_calls(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield a message for each such call in the function; none if its source cannot be read."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or not _mentions(code):  # which is cheaper to know than what is in the source
        return
    try:
        page = next(iter(inspect.signature(function).parameters))
        # Not `inspect.getsource`: its tokenizer compiles patterns, in a fortieth of the time of a short run.
        tree = ast.parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
    except (TypeError, ValueError, SyntaxError, StopIteration):
        return
    for node in ast.walk(_definition(tree, code)):
        call = node.value if isinstance(node, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr not in YIELDED:
            continue
        if isinstance(method.value, ast.Name) and method.value.id == page:
            place = f"{Path(code.co_filename).name}:{method.lineno}"
            yield MESSAGE.format(step=name, call=f"{page}.{method.attr}", place=place)


def _mentions(code: CodeType) -> bool:
    """Return whether a function, or one inside it, uses one of these names."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return any(name in code.co_names for name in YIELDED) or any(map(_mentions, inner))


def _definition(tree: ast.Module, code: CodeType) -> ast.AST:
    """Return the definition that was compiled to this code; an empty module if it is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return ast.Module([], [])

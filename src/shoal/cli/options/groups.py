"""Groups of options, defined once for every command that takes them."""

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

Command = Callable[..., None]


def group(
    name: str,
    options: Callable[..., None],
    read: Callable[[dict[str, Any]], Any],
    *,
    without: Collection[str] = (),
    **defaults: Any,
) -> Callable[[Command], Command]:
    """Replace a command's parameter `name` with these options; the command gets what `read` makes of them."""
    every = inspect.signature(options).parameters.values()
    members = [
        each.replace(default=defaults.get(each.name, each.default))
        for each in every
        if each.name not in without
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command).parameters.values()

        @wraps(command)
        def expanded(**given: Any) -> None:
            named = {each.name: given.pop(each.name, each.default) for each in members}
            command(**given, **{name: read(named)})

        found = (one for each in own for one in (members if each.name == name else [each]))
        # Keyword-only, so that one with a default may precede one without.
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in found]
        # Typer reads both of these, and does not see the wrapped function.
        expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {each.name: each.annotation for each in parameters}
        return expanded

    return decorate

"""Options that belong together, defined once for every command that takes them."""

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
    """Give a command these options in the place of its parameter of this name, which it is handed read."""
    every = inspect.signature(options).parameters.values()
    members = [
        each.replace(default=defaults.get(each.name, each.default))
        for each in every
        if each.name not in without
    ]

    def take(command: Command) -> Command:
        own = inspect.signature(command).parameters.values()

        @wraps(command)
        def expanded(**given: Any) -> None:
            named = {each.name: given.pop(each.name, each.default) for each in members}
            command(**given, **{name: read(named)})

        found = (one for each in own for one in (members if each.name == name else [each]))
        # By name alone, so that one with a default may stand before one without.
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in found]
        # Typer looks at both, and knows nothing of the function inside.
        expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {each.name: each.annotation for each in parameters}
        return expanded

    return take

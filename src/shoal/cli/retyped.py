"""The command that was typed, once more: with every option, for a run that goes on."""

import inspect
import shlex
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from typer.models import OptionInfo

from shoal.cli.groups import Command
from shoal.fleet.retyping import joined, queue_option, typed_again, without_secrets

if TYPE_CHECKING:
    from shoal.fleet.launch import Job

# What a run begins with is in the queue by now; the rest is said anew.
SAID_ANEW = ("scraper", "queue", "resume", "run_id", "allow_private", "as_json", "yes", "rejects")
SETTINGS = "changes"


@dataclass(frozen=True, slots=True)
class Typed:
    """A command and the options that differ from their defaults, by parameter."""

    command: str
    options: dict[str, tuple[str, Any]]


_typed: ContextVar[Typed | None] = ContextVar("typed", default=None)


def remembers(*, sources: Collection[str] = ()) -> Callable[[Command], Command]:
    """Have a command remember what was typed, but for the sources of its tasks."""

    def take(command: Command) -> Command:
        parameters = inspect.signature(command).parameters
        names = {name: found for name, each in parameters.items() if (found := _option(each))}

        @wraps(command)
        def remembering(**given: Any) -> None:
            chosen = {
                name: (names[name], value)
                for name, value in given.items()
                if name in names and name not in sources and value not in (parameters[name].default, None, [])
            }
            _typed.set(Typed(command.__name__, chosen))
            command(**given)

        return remembering

    return take


def go_on_command(job: "Job", run_id: str, *, max_pages: int | None = None) -> str:
    """Return the command that goes on with a run: the one that was typed, or `shoal run`."""
    typed = _typed.get()
    more = [] if max_pages is None else ["--set", f"max_pages={max_pages}"]
    if typed is None:
        return " ".join(
            [typed_again(job, "shoal", "run", job.name, "--resume", run_id), *map(shlex.quote, more)]
        )
    is_work = typed.command == "work"
    words = ["shoal", typed.command, job.name, "--run" if is_work else "--resume", run_id]
    words += [word for name in typed.options for word in _words(typed, name, bool(more))]
    for host in dict.fromkeys(job.typed.get("allow_private", ())):
        words += ["--allow-private", host]
    return joined([*words, *queue_option(job.queue_url), *more])


def _words(typed: Typed, name: str, with_max_pages: bool) -> Iterator[str]:
    if name in SAID_ANEW:
        return
    option, value = typed.options[name]
    for each in value if isinstance(value, list) else [value]:
        if with_max_pages and name == SETTINGS and str(each).partition("=")[0].strip() == "max_pages":
            continue
        yield option
        if each is not True:
            yield without_secrets(str(each), key="" if name == SETTINGS else name)


def _option(parameter: inspect.Parameter) -> str | None:
    """Return how a parameter is typed: its long form; None for an argument."""
    for found in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(found, OptionInfo):
            # In an annotation the first form stands where a default would.
            forms = (form for form in (found.default, *(found.param_decls or ())) if isinstance(form, str))
            named = (form for form in forms if form.startswith("--"))
            return next(named, f"--{parameter.name.replace('_', '-')}")
    return None

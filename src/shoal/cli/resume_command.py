"""Rebuilds the typed command with its options, to resume a run."""

import inspect
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from typer.models import OptionInfo

from shoal.cli.options.workers import Command, read_change
from shoal.fleet.command_hints import command_for_job, joined, queue_option, without_secrets
from shoal.fleet.job import Job
from shoal.scrape.settings.scraper import SETTINGS
from shoal.worker.run_settings import LIVE, options_for, storable

# Left out, as are the seeds, which are in the queue by now: not needed, or added with a new value.
NOT_REPEATED = ("scraper", "queue", "resume", "run_id", "args", "as_json", "yes", "rejects")
# Settings, which the run remembers: repeated, they would undo what `shoal set` has changed since.
CHANGES = "changes"
REMEMBERED = (CHANGES, "allow_private", *(name for name, one in SETTINGS.items() if one.option))


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command and its options that differ from their defaults, by parameter."""

    command: str
    options: dict[str, tuple[str, Any]]


_typed: ContextVar[TypedCommand | None] = ContextVar("typed", default=None)


def remember_options(*, sources: Collection[str] = ()) -> Callable[[Command], Command]:
    """Make a command remember its typed options, except the seeds."""

    def decorate(command: Command) -> Command:
        parameters = inspect.signature(command).parameters
        names = {name: found for name, each in parameters.items() if (found := _option(each))}

        @wraps(command)
        def remembering(**given: Any) -> None:
            chosen = {
                name: (names[name], value)
                for name, value in given.items()
                if name in names and name not in sources and value not in (parameters[name].default, None, [])
            }
            _typed.set(TypedCommand(command.__name__, chosen))
            command(**given)

        return remembering

    return decorate


def resume_command(
    job: "Job",
    run_id: str,
    *,
    max_pages: int | None = None,
    allow_private: Iterable[str] = (),
    steps: Collection[str] = (),
) -> str:
    """Return the command that resumes a run: the one that was typed, or `shoal run`; with other `steps`."""
    typed = _typed.get()
    more = [] if max_pages is None else ["--set", f"max_pages={max_pages}"]
    more += options_for(allow_private)
    more += ["--steps", ",".join(sorted(steps))] if steps else []
    if typed is None:
        return " ".join(
            [command_for_job(job, "shoal", "run", job.name, "--resume", run_id), *map(shlex.quote, more)]
        )
    is_work = typed.command == "work"
    words = ["shoal", typed.command, job.name, "--run" if is_work else "--resume", run_id]
    kept = [name for name in typed.options if name != "steps" or not steps]
    words += [word for name in kept for word in _words(typed, name)]
    return joined([*words, *queue_option(job.queue_url), *more])


def again_command(job: "Job", run_id: str, setting: str) -> str | None:
    """Return the command that makes a new run from the pages of a resumed one; None if sources were typed."""
    typed = _typed.get()
    if typed is None or "resume" not in typed.options:
        return None
    private = [word for host in job.scraper.settings.allow_private for word in ("--allow-private", host)]
    words = ["shoal", "run", job.name, "--again", run_id, "--set", setting, *private]
    return joined([*words, *queue_option(job.queue_url)])


def _words(typed: TypedCommand, name: str) -> Iterator[str]:
    if name in NOT_REPEATED:
        return
    option, value = typed.options[name]
    for each in value if isinstance(value, list) else [value]:
        if name in REMEMBERED and _is_remembered(typed, name, str(each)):
            continue
        yield option
        if each is not True:
            yield without_secrets(str(each), key="" if name == CHANGES else name)


def _is_remembered(typed: TypedCommand, name: str, text: str) -> bool:
    """Return whether the run has stored a setting: no secret, and of `work` only what all workers follow."""
    key, value = read_change(text) if name == CHANGES else (name, text)
    if typed.command == "work" and key not in LIVE:
        return False
    return not storable({key: value})[1]


def _option(parameter: inspect.Parameter) -> str | None:
    """Return the long form of an option; None for an argument."""
    for found in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(found, OptionInfo):
            # In an annotation, typer stores the first form as the default.
            forms = (form for form in (found.default, *(found.param_decls or ())) if isinstance(form, str))
            named = (form for form in forms if form.startswith("--"))
            return next(named, f"--{parameter.name.replace('_', '-')}")
    return None

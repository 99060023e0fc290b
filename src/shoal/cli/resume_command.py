"""Rebuilds the typed command with its options, to resume a run."""

import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from shoal.cli.options.help import typed_command
from shoal.cli.options.sources import SOURCES
from shoal.cli.options.workers import read_change
from shoal.fleet.command_hints import command_for_job, joined, queue_option, without_secrets
from shoal.fleet.job import Job
from shoal.scrape.settings.scraper import SETTINGS
from shoal.worker.run_settings import LIVE, options_for, storable

# Left out, as are the seeds, which are in the queue by now: not needed, or added with a new value.
NOT_REPEATED = ("queue", "resume", "run_id", "args", "as_json", "yes", "rejects", "again", *SOURCES)
REPEATED = ("run", "work", "fleet")  # the commands that are repeated as they were typed
# Settings, which the run remembers: repeated, they would undo what `shoal set` has changed since.
CHANGES = "changes"
REMEMBERED = (CHANGES, "allow_private", *(name for name, one in SETTINGS.items() if one.option))


def resume_command(
    job: Job,
    run_id: str,
    *,
    max_pages: int | None = None,
    allow_private: Iterable[str] = (),
    without: Collection[str] = (),
) -> str:
    """Return the command that resumes a run: as typed, `without` some options, or `shoal run`."""
    typed = _typed_command()
    more = [] if max_pages is None else ["--set", f"max_pages={max_pages}"]
    more += options_for(allow_private)
    if typed is None:
        return " ".join(
            [command_for_job(job, "shoal", "run", job.name, "--resume", run_id), *map(shlex.quote, more)]
        )
    words = ["shoal", typed.info_name, job.name, "--run" if typed.info_name == "work" else "--resume", run_id]
    for name, value in typed.params.items():
        if name not in without:
            words += _words(job, typed, name, value)
    return joined([*words, *queue_option(job.queue_url), *more])


def again_command(job: Job, run_id: str, setting: str) -> str | None:
    """Return the command that makes a new run from the pages of a resumed one; None if sources were typed."""
    typed = _typed_command()
    if typed is None or not typed.params.get("resume"):
        return None
    private = [word for host in job.scraper.settings.allow_private for word in ("--allow-private", host)]
    words = ["shoal", "run", job.name, "--again", run_id, "--set", setting, *private]
    return joined([*words, *queue_option(job.queue_url)])


def _typed_command() -> Any:
    """Return the context of the typed command, if it is one to repeat."""
    context = typed_command.get()
    return context if context and context.info_name in REPEATED else None


def _words(job: Job, typed: Any, name: str, value: Any) -> Iterator[str]:
    """Yield an option that differs from its default, unless it is not to be repeated."""
    option = next(one for one in typed.command.params if one.name == name)
    is_option = option.param_type_name == "option"
    if not is_option or name in NOT_REPEATED or value in (option.default, None, [], (), False):
        return
    long = next(form for form in option.opts if form.startswith("--"))
    for each in value if isinstance(value, list | tuple) else [value]:
        if name in REMEMBERED and _is_remembered(job, typed.info_name, name, str(each)):
            continue
        yield long
        if each is not True:
            yield without_secrets(str(each), key="" if name == CHANGES else name)


def _is_remembered(job: Job, command: str, name: str, text: str) -> bool:
    """Return whether the run has stored a setting: no secret, and of `work` only what all workers follow."""
    key, value = read_change(text) if name == CHANGES else (name, text)
    if command == "work" and key not in LIVE:
        return False
    return not storable(job.scraper.group_settings({key: value}))[1]

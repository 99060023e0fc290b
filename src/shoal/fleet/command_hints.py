"""Commands to show to the user: they use the same queue and settings, and contain no secrets."""

import os
import re
import shlex
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.commands import commands_use
from shoal.core.model import Run
from shoal.core.redact import is_secret_header, shown_address
from shoal.queue.contract import Queue
from shoal.worker.run_settings import read_note, storable

if TYPE_CHECKING:
    from shoal.fleet.job import Job

DEFAULT_QUEUE = "sqlite:///shoal.db"
# Replaces an address with a password: the shell expands it, and no secret is shown.
SECRET_QUEUE = "$SHOAL_QUEUE"
PAGE_LIMIT = re.compile(r"max_pages=([0-9]+)")  # in the reason of a run that has ended


def worker_command(job: "Job", run_id: str) -> str:
    """Return the command that starts a worker on the run, on any machine that has the secrets."""
    words = ["shoal", "work", job.name, "--run", run_id]
    words += ["--steps", ",".join(job.steps)] if job.steps else []
    words += ["--partitions", ",".join(job.partitions)] if job.partitions and not job.sharing else []
    return command_for_job(job, *words, elsewhere=True)


async def command_to_resume(queue: "Queue", queue_url: str, run: "Run") -> str:
    """Return the command that starts workers on a run; at its page limit, it gets as many pages again."""
    stored = (await read_note(queue, run.id)).settings
    words = ["shoal", "run", stored.scraper or run.scraper, "--resume", run.id, *queue_option(queue_url)]
    words += [word for key in stored.withheld for word in ("--set", f"{key}=…")]
    if limit := PAGE_LIMIT.search(run.reason):
        stats = await queue.stats(run.id)
        words += ["--set", f"max_pages={stats.completed + stats.dead + int(limit[1])}"]
    return joined(words)


class _Configured:
    queue: str | None = None


def set_configured_queue(url: str | None) -> None:
    """Say which queue commands of this user open without --queue; None: as the environment says."""
    _Configured.queue = url


def queue_option(url: str) -> list[str]:
    """Return the option that selects a queue; empty if commands open it without."""
    configured = _Configured.queue or os.environ.get("SHOAL_QUEUE") or DEFAULT_QUEUE
    return [] if url == configured else ["--queue", _pasteable(url)]


def needs_secret(command: str) -> bool:
    """Return whether a command needs SHOAL_QUEUE, because the queue's address has a password."""
    return SECRET_QUEUE in command


def _pasteable(url: str) -> str:
    return url if shown_address(url) == url else SECRET_QUEUE


def joined(words: Iterable[str]) -> str:
    """Return words quoted for a shell, which expands SHOAL_QUEUE itself."""
    return shlex.join(words).replace(f"'{SECRET_QUEUE}'", f'"{SECRET_QUEUE}"')


def messages_on(url: str) -> AbstractContextManager[None]:
    """Make the commands that messages show select this queue inside the block."""
    return commands_use(option_text(url))


def option_text(url: str) -> str:
    """Return the option that selects a queue as it is typed."""
    return joined(queue_option(url))


def command_on(url: str, command: str) -> str:
    """Return a `shoal` command for this queue."""
    return f"shoal {command} {option_text(url)}".rstrip()


def export_command(url: str, run_id: str, file: str = "items.jsonl") -> str:
    """Return the command that exports the items of a run to a file that does not exist yet."""
    return command_on(url, export_words(run_id, file))


def export_words(run_id: str, file: str = "items.jsonl") -> str:
    """Return that command without its queue."""
    path = Path(file)
    if path.exists():  # which `shoal export` refuses to replace
        path = path.with_name(f"{path.stem}_{run_id}{path.suffix}")
    more = ["--overwrite"] if path.exists() else []
    return joined(["export", run_id, "--to", str(path), *more])


def command_for_job(job: "Job", *words: str, elsewhere: bool = False) -> str:
    """Return a command for a job, to run here or on any machine; it contains no secrets."""
    options = job_options(job)
    if "--queue" in options:
        options[:2] = ["--queue", _pasteable(job.queue_url)] if elsewhere else queue_option(job.queue_url)
    return joined([*words, *map(without_secrets, options)])


def job_options(job: "Job") -> list[str]:
    """Return the options that another command needs for the same queue and settings."""
    words = [] if job.queue_url == DEFAULT_QUEUE else ["--queue", job.queue_url]
    words += ["--partitions", job.sharing.mode] if job.sharing else []
    # The run remembers its settings, except those with a secret.
    return words + [word for key in storable(job.typed)[1] for word in ("--set", f"{key}=…")]


def without_secrets(option: str, *, key: str = "") -> str:
    """Return a command word without secrets: a setting `KEY=VALUE`, or the value of the option `key`."""
    if key:
        hidden = without_secrets(f"{key}={option}")
        return hidden.removeprefix(f"{key}=")
    key, _, value = option.partition("=")
    if key == "proxies" and not Path(value.partition(" ")[0]).is_file():
        return "proxies=…"  # addresses, which may contain passwords
    if key == "tokens" and "[" in value:
        return "tokens=…"
    if key == "headers" and is_secret_header(value):
        return "headers=…"
    return shown_address(option)

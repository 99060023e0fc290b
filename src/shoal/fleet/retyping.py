"""Commands for a person to type: they mean the same queue and settings, and hold no secret."""

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shoal.core.redact import is_secret_header, shown_address

if TYPE_CHECKING:
    from shoal.fleet.launch import Job

DEFAULT_QUEUE = "sqlite:///shoal.db"
# What stands for an address with a password: a shell puts it in, and no secret is shown.
SECRET_QUEUE = "$SHOAL_QUEUE"


def worker_command(job: "Job", run_id: str) -> str:
    """Return the command that starts a worker on the run, on any machine that has the secrets."""
    return typed_again(job, "shoal", "work", job.name, "--run", run_id, elsewhere=True)


def queue_option(url: str) -> list[str]:
    """Return the option that a person types to mean a queue; nothing where it is meant anyway."""
    return [] if url in (DEFAULT_QUEUE, os.environ.get("SHOAL_QUEUE")) else ["--queue", _pasteable(url)]


def needs_secret(command: str) -> bool:
    """Tell whether a command needs SHOAL_QUEUE, for the queue's address holds a password."""
    return SECRET_QUEUE in command


def _pasteable(url: str) -> str:
    return url if shown_address(url) == url else SECRET_QUEUE


def joined(words: Iterable[str]) -> str:
    """Return words as a shell takes them; it puts the address of SHOAL_QUEUE in by itself."""
    return shlex.join(words).replace(f"'{SECRET_QUEUE}'", f'"{SECRET_QUEUE}"')


def typed_on(url: str, command: str) -> str:
    """Return a command of `shoal` for a person to type, which means this queue."""
    return " ".join(["shoal", command, *([joined(option)] if (option := queue_option(url)) else [])])


def typed_again(job: "Job", *words: str, elsewhere: bool = False) -> str:
    """Return a command about a job for a person to type, here or on any machine: without secrets."""
    options = job_options(job)
    if "--queue" in options:
        options[:2] = ["--queue", _pasteable(job.queue_url)] if elsewhere else queue_option(job.queue_url)
    return joined([*words, *map(without_secrets, options)])


def job_options(job: "Job") -> list[str]:
    """Return the options that make another command mean the same queue and settings."""
    words = [] if job.queue_url == DEFAULT_QUEUE else ["--queue", job.queue_url]
    words += ["--partitions", job.sharing.mode] if job.sharing else []
    for key, value in job.typed.items():
        if key == "allow_private":
            words += [word for host in dict.fromkeys(value) for word in ("--allow-private", host)]
        elif key != "mode":
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            words += ["--set", f"{key}={text}"]
    return words


def without_secrets(option: str, *, key: str = "") -> str:
    """Return a word of a command without secrets: a setting `KEY=VALUE`, or the value of an option `key`."""
    if key:
        hidden = without_secrets(f"{key}={option}")
        return hidden.removeprefix(f"{key}=")
    key, _, value = option.partition("=")
    if key == "proxies" and not Path(value.partition(" ")[0]).is_file():
        return "proxies=…"  # addresses, which may hold passwords
    if key == "tokens" and "[" in value:
        return "tokens=…"
    if key == "headers" and is_secret_header(value):
        return "headers=…"
    return shown_address(option)

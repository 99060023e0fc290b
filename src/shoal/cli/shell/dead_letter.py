"""A Python shell with the page of a dead letter and the step that failed on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.cli.configuration import current_project
from shoal.cli.console import say
from shoal.cli.open_queue import with_run
from shoal.cli.shell.failed_page import describe_page, find_failure
from shoal.cli.shell.interact import interact
from shoal.cli.shell.session import ShellSession
from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, UnknownScraper
from shoal.core.model import DeadLetter, Run
from shoal.fleet.build_job import job_of_run
from shoal.fleet.project.scrapers import load
from shoal.queue.contract import Queue
from shoal.queue.run_args import stored_args
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.worker.failures.pages import FailedPage
from shoal.worker.run_settings import read_note

BANNER = (
    "Edit your scraper and type run(): its step runs on the page again, and breakpoint() works in it.\n"
    "Also: debug(), page, task, scraper, view(page), fetch('https://…')"
)


def open_dead_shell(
    queue_url: str, run_id: str, letter_id: str, reference: str | None, allow_private: list[str]
) -> None:
    """Open the shell; raises UnknownLetter, and InvalidInput if the scraper is not known."""
    _, (run, letter, failed, args, typed) = with_run(
        queue_url, run_id, lambda queue, run: _find(queue, run, letter_id)
    )
    if reference is None and Path(typed.partition(":")[0]).is_file():
        reference = typed  # as it was typed for the run

    def load_scraper() -> Scraper:
        loaded = _load(queue_url, run, letter_id, reference)
        scraper = loaded.replace(allow_private=[*loaded.settings.allow_private, *allow_private])
        if scraper.declared_args:
            scraper.args = scraper.declared_args.restore(args)
        return scraper

    scraper = load_scraper()
    step = scraper.handler(letter.task)
    is_kept = failed is not None and step.fetch is not None
    subject = Page(failed.response, letter.task) if failed and is_kept else letter.task
    session = ShellSession(scraper.settings, _fetcher(step.fetch), load=load_scraper, subject=subject)
    if is_kept:
        say(f"Page as it failed: {describe_page(failed)}.")
    elif step.fetch is not None and letter.task.url:
        say("The page that failed was not kept; it is fetched again now, and may differ.")
        session.load(letter.task.url, task=letter.task)
    say(f"{letter.error}\n{letter.traceback}".rstrip())
    interact(session.names, BANNER)


async def _find(
    queue: "Queue", run_id: str, letter_id: str
) -> "tuple[Run, DeadLetter, FailedPage | None, Mapping[str, Any], str]":
    letter, failed = await find_failure(queue, run_id, letter_id)
    args = await stored_args(queue, run_id) or {}
    return await queue.run(run_id), letter, failed, args, (await read_note(queue, run_id)).settings.scraper


def _load(queue_url: str, run: "Run", letter_id: str, reference: str | None) -> Scraper:
    project = current_project()
    if reference:
        return load(project, reference).scraper
    try:
        return job_of_run(project, queue_url, run).scraper
    except UnknownScraper as error:
        raise InvalidInput(
            f"This folder has no shoal.toml with scraper {run.scraper!r}. Name its file: "
            f"{shoal_command(f'dead shell {run.id} {letter_id} FILE.py')}"
        ) from error


def _fetcher(fetch: str | None) -> str:
    return "browser" if fetch == "browser" else "http"

"""The page of a dead letter, for commands."""

import os
import shlex
import tempfile
from pathlib import Path

from shoal.core.errors import InvalidInput
from shoal.core.model import DeadLetter
from shoal.fleet.status.find import find_letter
from shoal.queue.contract import Queue
from shoal.worker.failures.pages import MAX_KEPT_BYTES, MAX_PER_KIND, FailedPage, read_failed_page

SUFFIXES = {"text/html": ".html", "application/xhtml+xml": ".html", "application/json": ".json"}


async def find_failure(queue: Queue, run_id: str, letter_id: str) -> tuple[DeadLetter, FailedPage | None]:
    """Return a dead letter and the page that was kept of it; raises UnknownLetter."""
    letter = await find_letter(queue, run_id, letter_id)
    return letter, await read_failed_page(queue, run_id, letter.id)


def describe_page(page: FailedPage | None) -> str:
    """Return what was kept of a page, in one line."""
    if page is None:
        return "not kept"
    cut = f", the first {MAX_KEPT_BYTES:,} were kept" if page.is_cut else ""
    return f"status {page.status}, {page.size:,} bytes{cut}"


def write_page(page: FailedPage | None, letter: DeadLetter) -> Path:
    """Write a page to a file that only this user can read, and return its path; raises if none was kept."""
    if page is None:
        raise InvalidInput(
            f"The page of dead letter {letter.id} was not kept. Pages are kept for as long as the setting "
            f"failed_pages says, {MAX_PER_KIND} of each error class and worker. To fetch it again, run: "
            f"shoal shell {shlex.quote(letter.task.url or 'URL')}"
        )
    return write_file(page.body, page.response.headers.get("content-type", ""), f"shoal-{letter.id[:12]}-")


def write_file(body: bytes, media_type: str, prefix: str) -> Path:
    """Write a body to a new temporary file with the suffix of its type, and return its path."""
    suffix = SUFFIXES.get(media_type.partition(";")[0].strip().lower(), ".txt")
    descriptor, path = tempfile.mkstemp(suffix, prefix)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
    return Path(path)

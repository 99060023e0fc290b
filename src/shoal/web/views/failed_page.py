"""The page of a dead letter as plain text: it is not trusted, so no browser may run any of it."""

from starlette.responses import PlainTextResponse, Response

from shoal.core.model import Task
from shoal.queue.contract import Queue
from shoal.scrape.page import Page
from shoal.web.errors import ApiError
from shoal.worker.failures.pages import read_failed_page

SANDBOX = "sandbox; default-src 'none'"


async def failed_page_response(queue: Queue, run_id: str, letter_id: str) -> Response:
    """Return the kept page of a dead letter; raises ApiError with status 404 if there is none."""
    found = await read_failed_page(queue, run_id, letter_id)
    if found is None:
        raise ApiError(404, "NoPage", "The page of this dead letter was not kept, or has expired.")
    text = Page(found.response, Task(url=found.url)).html
    return PlainTextResponse(text.encode(errors="replace"), headers={"Content-Security-Policy": SANDBOX})

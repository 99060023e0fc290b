"""The form that adds URLs to a run."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.text import shorten
from shoal.core.values import counted
from shoal.web.api.params import Operator, RunId
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, load_run, path_of_run, run_tab_data
from shoal.web.views.form import form_field, read_form
from shoal.web.views.render import redirect_after, render_page

router = APIRouter()
MAX_FORM = 1 << 20  # bytes


@router.get("/runs/{run_id}/enqueue")
async def form(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Show the form that adds URLs to a run."""
    return await _form(request, run_id)


@router.post("/runs/{run_id}/enqueue")
async def enqueue(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Add URLs to a run; lines that cannot be queued are shown again with the reason."""
    urls = form_field(await read_form(request, MAX_FORM), "urls")
    lines = [line.strip() for line in urls.splitlines() if line.strip()]
    try:
        if not lines:
            raise InvalidInput("Type at least one URL.")
        added = await actions.enqueue(run_id, urls=lines)
    except ShoalError as error:
        return await _form(request, run_id, urls=urls, error=str(error))
    if not added["refused"]:
        counts = {"count": added["enqueued"], "duplicate": added["duplicate"], "known": added["known"]}
        return redirect_after(request, path_of_run(run_id), "added", **counts)
    refused = [f"{shorten(one['text'])}: {one['reason']}" for one in added["refused"]]
    said = (
        f"{counted(added['enqueued'], 'task')} added, {added['duplicate']:,} already in the run, "
        f"{added['known']:,} queued by earlier runs. Not added: {counted(added['invalid'], 'line')}."
    )
    left = "\n".join(one["text"] for one in added["refused"])
    return await _form(request, run_id, urls=left, error=said, refused=refused)


async def _form(
    request: Request, run_id: str, *, urls: str = "", error: str = "", refused: list[str] | None = None
) -> Response:
    sample, snapshot = await load_run(request, run_id)
    scraper, redact = snapshot.run.scraper, context_of(request).redact
    return await render_page(
        request,
        "enqueue.html",
        title=f"Add URLs · {scraper}",
        heading=scraper,
        command=command_line("enqueue", scraper, run=run_id, url="https://…"),
        sample=sample,
        status=422 if error else 200,
        urls=urls,
        error=redact(error),
        refused=[redact(line) for line in refused or ()],
        **run_tab_data(run_id, "Run", snapshot),
    )

"""Parameters and responses that many routes share."""

import re
from typing import Annotated, Any

from fastapi import Depends, Path, Query

from shoal.core.errors import UnknownLetter, UnknownRun
from shoal.core.model import TaskState
from shoal.core.text import shorten
from shoal.fleet.status.find import NEWEST
from shoal.fleet.status.letter_ids import whole_ids
from shoal.web.actions import OperatorActions, operator_actions
from shoal.web.api.requests import Label
from shoal.web.api.responses import ErrorResponse
from shoal.web.context import WebContext, context_of
from shoal.web.views.paging import DEFAULT_LIMIT, MAX_LIMIT

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LETTER_ID = re.compile(r"[0-9a-f]{1,64}")


async def _run_id(
    context: "Context", run_id: Annotated[str, Path(description="The run's id, or `newest`")]
) -> str:
    # An impossible run id never reaches a store.
    if not _RUN_ID.fullmatch(run_id):
        raise UnknownRun(shorten(run_id))
    if run_id != NEWEST:
        return run_id
    newest = next(iter(await context.app.queue.runs()), None)
    if newest is None:
        raise UnknownRun(NEWEST)
    return newest.id


async def _letter_id(
    context: "Context",
    run_id: "RunId",
    letter: Annotated[str, Path(description="The dead letter's id, or its start or end")],
) -> str:
    if not _LETTER_ID.fullmatch(letter):
        raise UnknownLetter(run_id, shorten(letter))
    (whole,) = await whole_ids(context.app.queue, run_id, [letter])
    return whole


Context = Annotated[WebContext, Depends(context_of)]
Operator = Annotated[OperatorActions, Depends(operator_actions)]
RunId = Annotated[str, Depends(_run_id)]
Letter = Annotated[str, Depends(_letter_id)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows per page")]
After = Annotated[str | None, Query(max_length=500, description="`next` of the previous page")]
Number = Annotated[int, Query(ge=0, lt=1 << 62, description="`next` of the previous page")]
Text = Annotated[Label, Query()]
Step = Annotated[Label | None, Query(description="Only this step")]
States = Annotated[list[TaskState] | None, Query(description="Only these states", max_length=10)]

LIMIT = DEFAULT_LIMIT

# Shared by every route; a route declares its own ones itself.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorResponse, "description": "Missing or unknown token"},
    403: {
        "model": ErrorResponse,
        "description": "A reader cannot make changes; or the request came from another site's page",
    },
    404: {"model": ErrorResponse, "description": "No such run, scraper or dead letter"},
    409: {
        "model": ErrorResponse,
        "description": "The run exists, but in another state or with other settings",
    },
    413: {"model": ErrorResponse, "description": "The body is too large"},
    421: {"model": ErrorResponse, "description": "The Host header is not allowed"},
    422: {"model": ErrorResponse, "description": "Invalid input"},
    429: {"model": ErrorResponse, "description": "Too many failed logins"},
    503: {"model": ErrorResponse, "description": "The queue cannot be reached"},
}

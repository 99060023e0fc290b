"""What many routes take and answer."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query
from pydantic import StringConstraints

from shoal.core.errors import UnknownLetter, UnknownRun, shorten
from shoal.core.model import TaskState
from shoal.web.api.schema import Trouble
from shoal.web.api.wishes import PRINTABLE
from shoal.web.guard import Guest, guest_of, operator
from shoal.web.paging import DEFAULT_LIMIT, MOST, Page
from shoal.web.site import Site, site_of

T = TypeVar("T")

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LETTER_ID = re.compile(r"[0-9a-f]{1,64}")


def _run_id(run_id: Annotated[str, Path(description="The run's id")]) -> str:
    # What cannot be the id of a run is not looked for in any store.
    if not _RUN_ID.fullmatch(run_id):
        raise UnknownRun(shorten(run_id))
    return run_id


def _letter_id(run_id: "RunId", letter: Annotated[str, Path(description="The dead letter's id")]) -> str:
    if not _LETTER_ID.fullmatch(letter):
        raise UnknownLetter(run_id, shorten(letter))
    return letter


TheSite = Annotated[Site, Depends(site_of)]
Reader = Annotated[Guest, Depends(guest_of)]
Operator = Annotated[Guest, Depends(operator)]
RunId = Annotated[str, Depends(_run_id)]
Letter = Annotated[str, Depends(_letter_id)]
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many rows a page has")]
After = Annotated[str | None, Query(max_length=500, description="What `next` of the page before said")]
Number = Annotated[int, Query(ge=0, lt=1 << 62, description="What `next` of the page before said")]
Label = Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE)]
Step = Annotated[Label | None, Query(description="Of this step only")]
States = Annotated[list[TaskState] | None, Query(description="In one of these states", max_length=10)]

LIMIT = DEFAULT_LIMIT

# Of every route; what a single one may answer besides is said there.
TROUBLES: dict[int | str, dict[str, Any]] = {
    401: {"model": Trouble, "description": "No token, or one that is not known"},
    403: {"model": Trouble, "description": "A reader may look and not change; or another site's page asked"},
    404: {"model": Trouble, "description": "There is no such run, scraper or dead letter"},
    409: {"model": Trouble, "description": "The run exists, but not as asked for"},
    413: {"model": Trouble, "description": "The body is too large"},
    421: {"model": Trouble, "description": "The server is not known by this name"},
    422: {"model": Trouble, "description": "What was handed in cannot be used"},
    429: {"model": Trouble, "description": "Too many wrong tokens were tried"},
    503: {"model": Trouble, "description": "The queue cannot be reached"},
}


def listed(page: Page[T], row: Callable[[T], Mapping[str, Any]]) -> dict[str, Any]:
    """Return a page as the API has it."""
    return {"rows": [row(one) for one in page.rows], "next": page.next}

"""Dead letters: the list with its filters, one letter's history, and replaying or dropping them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.model import DeadFilter, DeadLetter
from shoal.fleet.letters import find_letter
from shoal.web.api.params import Label, Letter, RunId
from shoal.web.frame import answering, page, root_of
from shoal.web.pages.runpage import frame_of, links, path_of_run, seen, typed
from shoal.web.paging import placed, searched, taken
from shoal.web.site import site_of

router = APIRouter()
ROWS = 25
TALLIED = 500  # letters whose classes are counted for the chips


Text = Annotated[Label, Query()]


def wanted(step: Text = "", host: Text = "", error: Text = "") -> DeadFilter:
    """Read which dead letters are meant from a URL."""
    return DeadFilter(step=step or None, host=host or None, error=error or None)


Wanted = Annotated[DeadFilter, Depends(wanted)]


def as_fields(where: DeadFilter) -> dict[str, str]:
    """Return a filter as it stands in URLs and forms."""
    return {name: str(value) for name, value in asdict(where).items() if value}


@router.get("/runs/{run_id}/dead")
async def dead(
    request: Request, run_id: RunId, where: Wanted, part: Text = "", after: str | None = None
) -> Response:
    """List the dead letters that match; or search some thousands of them for a part of a URL."""
    queue, fields = site_of(request).app.queue, as_fields(where)
    sample, one = await seen(request, run_id)
    source = queue.dead(run_id, where, after=after or None)
    async with answering(site_of(request)):
        search = await searched(source, lambda one: part in (one.task.url or ""), ROWS) if part else None
        found = search.page if search else await placed(source, ROWS)
        tallied = await taken(queue.dead(run_id), TALLIED)
    return await page(
        request,
        "dead.html",
        title=f"{one.stats.dead:,} dead letters · {one.run.scraper}",
        heading=one.run.scraper,
        command=typed("shoal", "dead", "list", run_id, **fields),
        sample=sample,
        letters=found.rows,
        where=where,
        search=search,
        part=part,
        filter=urlencode(fields),
        classes=_classes(f"{root_of(request)}{path_of_run(run_id)}", tallied),
        classes_cut=len(tallied) >= TALLIED,
        **(frame_of(run_id, "Dead letters", one) | links(request, found.next, {**fields, "part": part})),
    )


@router.get("/runs/{run_id}/dead/{letter}")
async def show(request: Request, run_id: RunId, letter: Letter) -> Response:
    """Show one dead letter with its attempts as a timeline."""
    sample, one = await seen(request, run_id)
    async with answering(site_of(request)):
        found = await find_letter(site_of(request).app.queue, run_id, letter)
    return await page(
        request,
        "letter.html",
        title=f"Dead letter · {one.run.scraper}",
        heading=one.run.scraper,
        command=f"shoal dead show {run_id} {letter}",
        sample=sample,
        letter=found,
        payload=dict(found.task.payload),
        **frame_of(run_id, "Dead letters", one),
    )


def _classes(base: str, letters: Sequence[DeadLetter]) -> list[tuple[str, int, str]]:
    """Return the classes of errors with how often each is there, and where they are listed."""
    counted = Counter(class_of(letter.error) for letter in letters)
    return [
        (name, count, f"{base}/dead?{urlencode({'error': name})}")
        for name, count in counted.most_common(10)
        if name
    ]


def class_of(error: str) -> str:
    """Return the class that an error's text begins with, or its first words."""
    name, colon, _ = error.partition(":")
    return name if colon and name.isidentifier() else error[:60]


def words_of(letters: int, is_more: bool) -> str:
    """Return how many dead letters are meant, as far as they were counted."""
    noun = "dead letter" if letters == 1 else "dead letters"
    return f"{'more than ' if is_more else ''}{letters:,} {noun}"


def fields_of(ids: Sequence[str], where: DeadFilter) -> list[tuple[str, Any]]:
    """Return the hidden fields of a form that is about these letters, or all that match."""
    if ids:
        return [("id", one) for one in ids]
    return [("all", "1"), *as_fields(where).items()]

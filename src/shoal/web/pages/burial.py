"""Replaying and dropping dead letters: how many are meant is said before it is done."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import DeadFilter
from shoal.web import deeds
from shoal.web.api.params import Operator, RunId
from shoal.web.form import Form, one_of, read_form
from shoal.web.frame import answering, back_to, page, root_of
from shoal.web.pages.dead import Wanted, as_fields, fields_of, words_of
from shoal.web.pages.runpage import path_of_run, seen, typed
from shoal.web.paging import taken
from shoal.web.site import site_of

router = APIRouter()
MOST_COUNTED = 5_000

Ids = Annotated[list[str] | None, Query(alias="id", max_length=1_000)]
Verb = Literal["replay", "drop"]
CONSEQUENCES = {
    "replay": "They go back to pending with their attempts counted anew; workers of the run take them up.",
    "drop": "They are given up for good. Their keys stay taken, so they do not come back by themselves.",
}


@router.get("/runs/{run_id}/replay")
async def ask_replay(
    request: Request, run_id: RunId, guest: Operator, where: Wanted, ids: Ids = None, all: bool = False
) -> Response:
    """Ask whether dead letters are to be put back to work."""
    return await _ask(request, run_id, "replay", ids or [], where if all else None)


@router.get("/runs/{run_id}/drop")
async def ask_drop(
    request: Request, run_id: RunId, guest: Operator, where: Wanted, ids: Ids = None, all: bool = False
) -> Response:
    """Ask whether dead letters are to be given up for good."""
    return await _ask(request, run_id, "drop", ids or [], where if all else None)


@router.post("/runs/{run_id}/replay")
async def replay(request: Request, run_id: RunId, guest: Operator) -> Response:
    """Put dead letters back to work."""
    meant = _meant(await read_form(request))
    count = await deeds.replay(site_of(request), guest, run_id, meant["ids"], where=meant["where"])
    return back_to(request, f"{path_of_run(run_id)}/dead", "replayed", count=count)


@router.post("/runs/{run_id}/drop")
async def drop(request: Request, run_id: RunId, guest: Operator) -> Response:
    """Give dead letters up for good."""
    meant = _meant(await read_form(request))
    count = await deeds.drop(site_of(request), guest, run_id, meant["ids"], where=meant["where"])
    return back_to(request, f"{path_of_run(run_id)}/dead", "dropped", count=count)


async def _ask(
    request: Request, run_id: str, verb: Verb, ids: Sequence[str], where: DeadFilter | None
) -> Response:
    sample, _ = await seen(request, run_id)
    count, is_more = await _counted(request, run_id, ids, where)
    home = f"{root_of(request)}{path_of_run(run_id)}"
    words = words_of(count, is_more)
    return await page(
        request,
        "confirm.html",
        title=f"{verb.capitalize()} dead letters",
        command=typed("shoal", "dead", verb, run_id, *ids, **as_fields(where or DeadFilter())),
        sample=sample,
        question=f"{verb.capitalize()} {words}?" if count else "None is ticked, or none matches.",
        consequence=CONSEQUENCES[verb] if count else "Tick some in the list, or choose all that match.",
        can_do=bool(count),
        is_grave=verb == "drop",
        verb=f"{verb.capitalize()} {words}",
        action=f"{home}/{verb}",
        fields=fields_of(ids, where or DeadFilter()),
        back=f"{home}/dead",
    )


async def _counted(
    request: Request, run_id: str, ids: Sequence[str], where: DeadFilter | None
) -> tuple[int, bool]:
    """Return how many are meant, counted no further than a person cares."""
    if ids or where is None:
        return len(set(ids)), False
    async with answering(site_of(request)):
        found = len(await taken(site_of(request).app.queue.dead(run_id, where), MOST_COUNTED + 1))
    return min(found, MOST_COUNTED), found > MOST_COUNTED


def _meant(form: Form) -> dict[str, Any]:
    """Return which letters a form is about; raises InvalidInput when it names none."""
    if ids := form.get("id"):
        return {"ids": list(dict.fromkeys(ids)), "where": DeadFilter()}
    if not one_of(form, "all"):
        raise InvalidInput("No dead letter was named. Tick some in the list, or choose all that match.")
    step, host, error = (one_of(form, name) or None for name in ("step", "host", "error"))
    return {"ids": None, "where": DeadFilter(step=step, host=host, error=error)}

"""Dead letters: list, show, replay and drop."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from shoal.core.model import DeadFilter
from shoal.fleet.letters import find_letter
from shoal.fleet.rows import letter_row, whole_letter_row
from shoal.web import deeds
from shoal.web.api import receipts, schema
from shoal.web.api.params import LIMIT, After, Label, Letter, Limit, Operator, RunId, Step, TheSite, listed
from shoal.web.api.wishes import LettersWish
from shoal.web.paging import placed

router = APIRouter(prefix="/runs/{run_id}/dead", tags=["dead letters"])


@router.get("", response_model=schema.Listed[schema.LetterRow])
async def letters(
    site: TheSite,
    run_id: RunId,
    step: Step = None,
    host: Annotated[Label | None, Query(description="Of this host only")] = None,
    error: Annotated[Label | None, Query(description="Whose error holds this text")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List the dead letters, the oldest first."""
    where = DeadFilter(step=step, host=host, error=error)
    return listed(await placed(site.app.queue.dead(run_id, where, after=after), limit), letter_row)


@router.get("/{letter}", response_model=schema.WholeLetter)
async def show(site: TheSite, run_id: RunId, letter: Letter) -> dict[str, Any]:
    """Show one dead letter with its payload and all its attempts."""
    return whole_letter_row(await find_letter(site.app.queue, run_id, letter))


@router.post("/replay", response_model=receipts.Replayed)
async def replay(site: TheSite, guest: Operator, run_id: RunId, wish: LettersWish) -> dict[str, Any]:
    """Put dead letters back to pending with their attempts reset."""
    where = wish.where.filter() if wish.where else DeadFilter()
    return {"run_id": run_id, "replayed": await deeds.replay(site, guest, run_id, wish.ids, where=where)}


@router.post("/drop", response_model=receipts.Dropped)
async def drop(site: TheSite, guest: Operator, run_id: RunId, wish: LettersWish) -> dict[str, Any]:
    """Give dead letters up for good."""
    where = wish.where.filter() if wish.where else DeadFilter()
    return {"run_id": run_id, "dropped": await deeds.drop(site, guest, run_id, wish.ids, where=where)}

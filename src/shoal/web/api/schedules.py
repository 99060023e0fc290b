"""Schedules: list, show, change, pause, resume, run now. They are added in shoal.toml or by a command."""

from typing import Annotated

from fastapi import APIRouter, Path

from shoal.fleet.schedule.plan import MAX_HISTORY
from shoal.fleet.schedule.rows import ScheduleRow
from shoal.web.actions import Operator
from shoal.web.requests import LIMIT, After, Context, Limit, ScheduleBody
from shoal.web.views.paging import ListPage, as_async, scan_page

router = APIRouter(tags=["schedules"])

ScheduleName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,60}$", description="The schedule, as listed")]


@router.get("/schedules")
async def schedules(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[ScheduleRow]:
    """List the schedules with their next occurrence and the newest ones."""
    source = as_async(await context.app.schedules.all())
    found = await scan_page(source, lambda one: one.name, limit=limit, after=after)
    return found.of(ScheduleRow.from_record)


@router.get("/schedules/{name}")
async def schedule(context: Context, name: ScheduleName) -> ScheduleRow:
    """Show a schedule with all occurrences that are remembered."""
    return ScheduleRow.from_record(await context.app.schedules.get(name), limit=2 * MAX_HISTORY)


@router.patch("/schedules/{name}")
async def change(actions: Operator, name: ScheduleName, body: ScheduleBody) -> ScheduleRow:
    """Change when it runs, its arguments or its settings, until shoal.toml says something new."""
    return ScheduleRow.from_record(await actions.change_schedule(name, body))


@router.post("/schedules/{name}/pause")
async def pause(actions: Operator, name: ScheduleName) -> ScheduleRow:
    """Fire it no more until it is resumed; a run that has begun goes on."""
    return ScheduleRow.from_record(await actions.steer_schedule("pause", name))


@router.post("/schedules/{name}/resume")
async def resume(actions: Operator, name: ScheduleName) -> ScheduleRow:
    """Continue with the next occurrence after now."""
    return ScheduleRow.from_record(await actions.steer_schedule("resume", name))


@router.post("/schedules/{name}/run-now")
async def run_now(actions: Operator, name: ScheduleName) -> ScheduleRow:
    """Run it once now, when a coordinator sees it; the newest occurrence has the id of the run."""
    return ScheduleRow.from_record(await actions.steer_schedule("run_now", name))

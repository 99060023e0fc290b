"""The page of schedules: next and last runs, the outcomes as a strip, and forms that steer and edit."""

from typing import Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.fleet.schedule.definition import MISSED, OVERLAPS
from shoal.fleet.schedule.rows import ScheduleRow, sign_of
from shoal.web.actions import Operator
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line
from shoal.web.requests import ScheduleBody
from shoal.web.views.form import body_of, form_field, read_form
from shoal.web.views.render import queue_timeout, redirect_after, render_page

router = APIRouter()
VERBS: dict[str, Literal["pause", "resume", "run_now"]] = {
    "pause": "pause",
    "resume": "resume",
    "run now": "run_now",
}
FIELDS = ("cron", "every", "timezone", "jitter", "overlap", "missed", "time_limit")


@router.get("/schedules")
async def schedules(request: Request) -> Response:
    """List the schedules."""
    async with queue_timeout(context_of(request)):
        records = await context_of(request).app.schedules.all()
    return await render_page(
        request,
        "schedules.html",
        title="Schedules",
        command=command_line("schedule", "list"),
        schedules=[ScheduleRow.from_record(record) for record in records],
        sign_of=sign_of,
        overlaps=OVERLAPS,
        missed=MISSED,
    )


@router.post("/schedules")
async def steer_schedule(request: Request, actions: Operator) -> Response:
    """Pause, resume or edit a schedule, or run it now."""
    form = await read_form(request)
    name, action = form_field(form, "name"), form_field(form, "action")
    if action == "edit":
        given = {field: text.strip() for field in FIELDS if (text := form_field(form, field)).strip()}
        await actions.change_schedule(name, body_of(ScheduleBody, **given))
    elif action in VERBS:
        await actions.steer_schedule(VERBS[action], name)
    else:
        raise InvalidSetting("action", f"must be edit, {', '.join(VERBS)}")
    return redirect_after(request, "/schedules", f"schedule {action}")

"""The HTML pages, one file per kind; `router` includes all of them."""

from fastapi import APIRouter

from shoal.web.pages import dead, fleet, lists, purge, runs, schedules, start

router = APIRouter()
for part in (runs, purge, lists, dead, start, fleet, schedules):
    router.include_router(part.router)

"""The HTML pages, one file per kind; `router` includes all of them."""

from fastapi import APIRouter

from shoal.web.pages import dead, fleet, overview, records, runs, tasks

router = APIRouter()
for part in (overview, runs, records, dead, tasks, fleet):
    router.include_router(part.router)

"""The HTML pages, one file per kind; `router` includes all of them."""

from fastapi import APIRouter

from shoal.web.pages import dead, dead_edit, fleet, overview, purge, records, runs, tasks

router = APIRouter()
for part in (overview, runs, purge, records, dead, dead_edit, tasks, fleet):
    router.include_router(part.router)

"""The HTML pages, one file per kind; `router` includes all of them."""

from fastapi import APIRouter

from shoal.web.pages import dead, fleet, local_workers, overview, records, runs, start, tasks

router = APIRouter()
for part in (overview, runs, local_workers, records, dead, tasks, start, fleet):
    router.include_router(part.router)

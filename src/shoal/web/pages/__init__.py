"""The pages that people look at, one file for each kind; `router` has them all."""

from fastapi import APIRouter

from shoal.web.pages import burial, dead, fleet, overview, records, runs, tasks

router = APIRouter()
for part in (overview, runs, records, dead, burial, tasks, fleet):
    router.include_router(part.router)

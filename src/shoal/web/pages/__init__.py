"""The HTML pages, one file per kind; `router` includes all of them."""

from fastapi import APIRouter

from shoal.web.pages import (
    dead,
    dead_edit,
    enqueue,
    fleet,
    local_workers,
    overview,
    purge,
    records,
    runs,
    start,
    tasks,
)

router = APIRouter()
for part in (overview, runs, enqueue, purge, local_workers, records, dead, dead_edit, tasks, start, fleet):
    router.include_router(part.router)

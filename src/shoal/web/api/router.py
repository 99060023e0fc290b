"""One router with all routes of the API."""

from fastapi import APIRouter

from shoal.web.api import dead, fleet, results, runs, tasks
from shoal.web.api.params import ERROR_RESPONSES

router = APIRouter(prefix="/api", responses=ERROR_RESPONSES)
for part in (fleet, runs, results, tasks, dead):
    router.include_router(part.router)

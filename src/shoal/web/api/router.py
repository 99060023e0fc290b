"""All routes of the API under one roof."""

from fastapi import APIRouter

from shoal.web.api import dead, fleet, results, runs, work
from shoal.web.api.params import TROUBLES

router = APIRouter(prefix="/api", responses=TROUBLES)
for part in (fleet, runs, results, work, dead):
    router.include_router(part.router)

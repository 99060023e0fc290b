"""docs/how-to/dashboard.md matches the pages."""

import re
from pathlib import Path

from shoal.fleet.status.rates import MAX_POINTS
from shoal.web import sampler, stream
from shoal.web.audit import AUDIT_TTL
from shoal.web.pages import dead, fleet, lists, runs, start
from shoal.web.views import models

PAGE = (Path(__file__).parents[3] / "docs/how-to/dashboard.md").read_text()
PARTS = (dead, fleet, lists, runs, start)
CONFIRMATIONS = {
    f"/runs/{{run_id}}/{verb}"
    for verb in ("cancel", "replay", "drop", "edit", "start-workers", "stop-workers")
}


def test_it_lists_every_page():
    listed = re.findall(r"^\| `(/[^`]*)` \|", PAGE, re.MULTILINE)
    named = {path.replace("RUN", "{run_id}").replace("LETTER", "{letter}") for path in listed}
    there = {route.path for part in PARTS for route in part.router.routes if "GET" in route.methods}
    assert named == there - CONFIRMATIONS


def test_its_numbers_are_those_of_the_code():
    assert "every two seconds" in PAGE and sampler.SAMPLE_INTERVAL.total_seconds() == 2
    assert "for 30 seconds it pauses" in PAGE and sampler.IDLE_TIMEOUT.total_seconds() == 30
    assert f"{stream.MAX_CLIENTS} tabs may be open" in PAGE
    assert f"{lists.ITEM_ROWS} at a time" in PAGE
    assert "the last five minutes" in PAGE and models.RECENT.total_seconds() == 300
    assert f"for {AUDIT_TTL.days} days" in PAGE
    assert f"{MAX_POINTS} points at most" in PAGE

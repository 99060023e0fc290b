"""What docs/how-to/dashboard.md says of the pages is so."""

import re
from pathlib import Path

from shoal.web import facts, live, sampler
from shoal.web.actions import KEPT
from shoal.web.pages import burial, dead, fleet, overview, records, runs, tasks

PAGE = (Path(__file__).parents[3] / "docs/how-to/dashboard.md").read_text()
PARTS = (burial, dead, fleet, overview, records, runs, tasks)
QUESTIONS = {"/runs/{run_id}/cancel", "/runs/{run_id}/replay", "/runs/{run_id}/drop"}


def test_it_lists_every_page():
    listed = re.findall(r"^\| `(/[^`]*)` \|", PAGE, re.MULTILINE)
    named = {path.replace("RUN", "{run_id}").replace("LETTER", "{letter}") for path in listed}
    there = {route.path for part in PARTS for route in part.router.routes if "GET" in route.methods}
    assert named == there - QUESTIONS


def test_its_numbers_are_those_of_the_code():
    assert "every two seconds" in PAGE and sampler.EVERY.total_seconds() == 2
    assert "for 30 seconds it rests" in PAGE and sampler.REST_AFTER.total_seconds() == 30
    assert f"{live.MOST_CLIENTS} tabs may be open" in PAGE
    assert f"{records.ROWS} at a time" in PAGE
    assert "the last five minutes" in PAGE and facts.LATELY.total_seconds() == 300
    assert f"for {KEPT.days} days" in PAGE

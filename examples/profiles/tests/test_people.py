import asyncio
import json
from pathlib import Path

from people import links, profile, search

from shoal.testing import page, run_step

PAGES = Path(__file__).parent / "pages"
LOGIN = "gus-gomez-0"


def harvest(step, file, **more):
    return asyncio.run(run_step(step, page((PAGES / file).read_bytes(), **more)))


def test_the_search_leads_to_each_profile_and_to_its_next_page():
    found = harvest(search, "search.json", url="http://api.example/people").follow
    assert [task.step for task in found] == [*["profile"] * 25, "search"]
    assert (found[0].url, found[0].key) == (f"http://api.example/people/{LOGIN}", LOGIN)


def test_a_record_keeps_its_key_and_what_is_known_of_it():
    (task,) = harvest(profile, "profile.json").follow
    assert (task.step, task.key, task.payload["name"]) == ("links", LOGIN, "Gus Gomez")


def test_the_last_stage_adds_the_links():
    known = json.loads((PAGES / "profile.json").read_text())
    (item,) = harvest(links, "links.html", payload=known).items
    assert item == {**known, "links": {"code": f"https://code.example/{LOGIN}"}}

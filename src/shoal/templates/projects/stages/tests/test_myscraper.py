import asyncio
import json
from pathlib import Path

from myscraper import enhance, profile, search

from shoal.testing import page, run_step

PAGES = Path(__file__).parent / "pages"
LOGIN = "gus-gomez-0"


def harvest(step, file, **more):
    return asyncio.run(run_step(step, page((PAGES / file).read_bytes(), **more)))


def test_the_search_leads_to_profiles_and_to_its_next_page():
    first, *_, last = harvest(search, "search.json", url="http://site.example/people").follow
    assert (first.url, first.step, first.key) == (f"http://site.example/people/{LOGIN}", "profile", LOGIN)
    assert last.url == "http://site.example/people?page=2"


def test_a_profile_leads_to_the_next_stage_of_the_same_record():
    (task,) = harvest(profile, "profile.json", url=f"http://site.example/people/{LOGIN}").follow
    assert (task.step, task.key, task.payload["login"]) == ("enhance", LOGIN, LOGIN)


def test_the_last_stage_has_what_all_of_them_found():
    (item,) = harvest(enhance, "links.html", payload=json.loads((PAGES / "profile.json").read_text())).items
    assert item["login"] == LOGIN
    assert item["links"] == [f"https://code.example/{LOGIN}"]

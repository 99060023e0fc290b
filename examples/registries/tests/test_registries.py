import json
from pathlib import Path

import pytest
from make_urls import lines
from scrapers.argentina import argentina
from scrapers.canada import canada
from scrapers.india import india
from scrapers.malaysia import malaysia
from scrapers.netherlands import netherlands

PAGES = Path(__file__).parent / "pages"
FIELDS = ["code", "name", "substance", "form", "holder"]


def read(name):
    return (PAGES / name).read_text()


def test_a_list_leads_to_each_medicine_and_to_the_next_list():
    follow = argentina.parse(read("argentina-list.html"), url="http://registry.example/").follow
    assert [task.step for task in follow] == [*["medicine"] * 20, "listing"]
    assert follow[-1].url == "http://registry.example/?from=21"


@pytest.mark.parametrize(
    ("scraper", "step", "page", "count"),
    [
        (argentina, "medicine", "argentina.html", 1),
        (canada, "products", "canada.json", 20),
        (netherlands, "substance", "netherlands.html", 14),
        (india, "drug", "india.html", 1),
        (malaysia, "pack", "malaysia.html", 1),
    ],
)
def test_each_registry_gives_the_same_fields(scraper, step, page, count):
    items = scraper.parse(read(page), step=step).items
    assert len(items) == count
    assert all(list(item) == FIELDS for item in items)


def test_the_api_leads_to_its_next_page():
    follow = canada.parse(read("canada.json"), url="http://registry.example/api/products").follow
    assert [task.url for task in follow] == [
        f"http://registry.example{json.loads(read('canada.json'))['next']}"
    ]


def test_the_file_of_urls_repeats_a_hundredth_in_another_spelling():
    found = list(lines(200))
    assert len(found) == 204 and "/x/../drug/100#facts" in found[100]

import asyncio
from pathlib import Path

from news import article, live

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "article.html"


def harvest(step, **more):
    return asyncio.run(run_step(step, page(PAGE.read_bytes(), **more))).items


def test_an_article_has_its_paper_section_and_title():
    (item,) = harvest(article)
    assert (item["paper"], item["section"]) == ("herald", "archive")
    assert item["title"].endswith("part 7") and "published" not in item


def test_breaking_news_has_the_date_of_its_sitemap():
    (item,) = harvest(article, payload={"news": {"date": "2026-02-08"}})
    assert item["published"] == "2026-02-08"


def test_only_live_pages_are_fetched_at_most_once():
    assert (article.delivery, live.delivery) == (None, "at_most_once")

import asyncio
from pathlib import Path

from myscraper import article

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "article.html"


def test_an_article_has_its_title_and_the_date_of_the_sitemap():
    saved = page(PAGE.read_bytes(), url="http://news.example/1", payload={"lastmod": "2026-01-06"})
    (item,) = asyncio.run(run_step(article, saved)).items
    assert item == {
        "url": "http://news.example/1",
        "title": "Plain Slate Lantern",
        "language": "en",
        "lastmod": "2026-01-06",
        "words": item["words"],
    }
    assert item["words"] > 100

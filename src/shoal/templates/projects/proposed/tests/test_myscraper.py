import asyncio
from pathlib import Path

from myscraper import myscraper

from shoal.testing import page, run_step

PAGES = Path(__file__).parent / "pages"
EXPECTED = (0, 0)  # items and links


def test_the_saved_page_gives_its_items_and_links():
    saved = page((PAGES / "start.html").read_bytes(), url="SHOAL_URL")
    found = asyncio.run(run_step(myscraper.first, saved))
    assert (len(found.items), len(found.follow)) == EXPECTED

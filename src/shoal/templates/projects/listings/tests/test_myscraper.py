import asyncio
from pathlib import Path

from myscraper import listing

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "listing.html"


def test_a_listing_gives_businesses_with_a_phone_and_says_what_it_rejects():
    harvest = asyncio.run(run_step(listing, page(PAGE.read_bytes())))
    assert [item["id"] for item in harvest.items] == [
        f"NY-new-york-bakeries-{number}" for number in (2, 3, 4, 5)
    ]
    assert [reject.reason for reject in harvest.rejects] == ["no phone", "no phone"]

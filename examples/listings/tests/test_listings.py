import asyncio
from collections import Counter
from pathlib import Path

from listings import listing

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "listing.html"


def test_a_listing_gives_businesses_with_a_phone_and_says_what_it_rejects():
    harvest = asyncio.run(run_step(listing, page(PAGE.read_bytes())))
    assert [item["id"] for item in harvest.items] == [
        f"IA-des-moines-plumbers-{number}" for number in (0, 1, 2)
    ]
    assert Counter(reject.reason for reject in harvest.rejects) == {"sponsored": 2, "no phone": 1}
    assert {type(item["rating"]) for item in harvest.items} == {float}

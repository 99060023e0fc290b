"""All sections at once: what `shoal demo --serve` serves beside the shop."""

from collections.abc import Mapping

from shoal.demo.catalogue import open_shops
from shoal.demo.sections import Section
from shoal.demo.sections.api import ApiSection
from shoal.demo.sections.directory import DirectorySection
from shoal.demo.sections.members import MembersSection
from shoal.demo.sections.people import PeopleSection
from shoal.demo.sections.quota import TokenQuota

PRODUCTS, PEOPLE = 150, 60
LIMIT, WINDOW = 100, 20.0  # requests of each token, and seconds

# The templates of `shoal new` start there.
PLACES = {
    "/": "a shop, its sitemap, and pages that need JavaScript at /js/",
    "/api/products": "the same products as JSON; tokens begin with practice-",
    "/members/login": "orders behind a login; user reader, password practice",
    "/listings/": "businesses of 51 states by city and category",
    "/people": "profiles of developers as JSON; tokens begin with practice-",
}


def practice_sections(products: int, seed: int) -> Mapping[str, Section]:
    """Return the sections of a shop with this number of products."""
    (shop,) = open_shops(1, products, seed)
    return {
        "api": ApiSection(shop.products, TokenQuota(LIMIT, WINDOW)),
        "members": MembersSection(),
        "listings": DirectorySection(),
        "people": PeopleSection(PEOPLE, TokenQuota(LIMIT, WINDOW)),
    }

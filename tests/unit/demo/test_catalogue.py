"""The products of the shops."""

from shoal.demo.catalogue import PER_LISTING, open_shops
from shoal.demo.faults import PageFault, fault_of


def test_the_same_seed_makes_the_same_shops_and_another_makes_others():
    assert open_shops(4, 200, seed=1) == open_shops(4, 200, seed=1)
    assert open_shops(4, 200, seed=1) != open_shops(4, 200, seed=2)


def test_the_products_are_distributed_and_each_sku_is_unique():
    shops = open_shops(3, 100, seed=1)
    assert [len(shop.products) for shop in shops] == [34, 33, 33]
    assert len({product.sku for shop in shops for product in shop.products}) == 100


def test_every_product_is_on_one_page_of_its_category():
    (shop,) = open_shops(1, 333, seed=1)
    listed = [
        product for listing_pages in shop.listings.values() for page in listing_pages for product in page
    ]
    assert sorted(listed, key=lambda product: product.number) == list(shop.products)
    assert max(len(page) for listing_pages in shop.listings.values() for page in listing_pages) == PER_LISTING


def test_a_category_without_products_still_has_a_page():
    (shop,) = open_shops(1, 1, seed=1)
    assert shop.listings["stationery"] == [[]]


def test_a_few_products_have_no_price():
    shops = open_shops(4, 2_000, seed=2026)
    assert sum(not product.has_price for shop in shops for product in shop.products) == 8


def test_every_kind_of_fault_is_among_the_first_hundred_products():
    (shop,) = open_shops(1, 100, seed=1)
    assert {fault_of(product) for product in shop.products} == {None, *PageFault}

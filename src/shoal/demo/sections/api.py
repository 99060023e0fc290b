"""`/api/`: the products of the shop as JSON, in pages, for those who have a token."""

from collections.abc import Sequence

from shoal.demo.catalogue import CatalogueProduct
from shoal.demo.http import ShopRequest
from shoal.demo.routes import ShopResponse
from shoal.demo.sections.quota import TokenQuota
from shoal.demo.sections.responses import json_response, page_number

PER_PAGE = 20


class ApiSection:
    """The API of one shop."""

    def __init__(self, products: Sequence[CatalogueProduct], quota: TokenQuota) -> None:
        self._products = products
        self._quota = quota

    def __call__(self, request: ShopRequest) -> ShopResponse:
        """Return one page of `/api/products`."""
        if refusal := self._quota.refuse(request):
            return refusal
        headers = self._quota.headers(request)
        number = page_number(request)
        found = self._products[(number - 1) * PER_PAGE : number * PER_PAGE] if number else ()
        if request.path.partition("?")[0] != "/api/products" or not found:
            return json_response({"message": "Not found"}, 404, headers)
        is_last = number * PER_PAGE >= len(self._products)
        page = {
            "products": [_fields(one) for one in found],
            "next": None if is_last else f"/api/products?page={number + 1}",
        }
        return json_response(page, headers=headers)


def _fields(one: CatalogueProduct) -> dict[str, object]:
    price = one.price.removeprefix("€") if one.has_price else None
    return {"sku": one.sku, "name": one.name, "price": price, "stock": one.stock, "category": one.category}

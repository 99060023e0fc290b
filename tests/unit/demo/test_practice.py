"""The parts of the demo site for other kinds of scrapers: an API with quotas, and a login."""

import json

from shoal.demo.practice import LIMIT
from tests.unit.demo.client import Client

TOKEN = {"Authorization": "Bearer practice-1"}


async def post(site, path, body, **headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with Client(site.seeds[0]) as client:
        await client.send(
            f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{lines}\r\n{body}".encode()
        )
        return await client.reply()


async def test_the_api_has_every_product_of_the_first_shop_in_pages(site, client):
    path, found = "/api/products", []
    while path:
        data = json.loads((await client.get(path, **TOKEN)).body)
        found += [one["sku"] for one in data["products"]]
        path = data["next"]
    assert found == [f"S0-{number:05d}" for number in range(100)]
    assert (await client.get("/api/products?page=none", **TOKEN)).status == 404
    async with Client(site.seeds[1]) as other:
        assert (await other.get("/api/products", **TOKEN)).status == 404


async def test_a_token_has_a_quota_and_the_headers_say_what_is_left(client):
    assert (await client.get("/api/products")).status == 401
    assert (await client.get("/api/products", Authorization="Bearer stolen")).status == 401
    replies = [await client.get("/api/products", **TOKEN) for _ in range(LIMIT)]
    left = [int(reply.headers["x-ratelimit-remaining"]) for reply in replies]
    assert left == list(range(LIMIT - 1, -1, -1))
    refused = await client.get("/api/products", **TOKEN)
    assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
    assert (await client.get("/api/products", Authorization="Bearer practice-2")).status == 200


async def test_orders_are_for_members_only(site, client):
    assert (await client.get("/members/orders")).status == 401
    form = await client.get("/members/login")
    visit = form.headers["set-cookie"].partition(";")[0]
    csrf = form.text.partition('name="csrf" value="')[2].partition('"')[0]
    for body, cookie in (
        (f"user=reader&password=wrong&csrf={csrf}", visit),
        (f"user=reader&password=practice&csrf={csrf}", "visit=other"),
        ("user=reader&password=practice", visit),
    ):
        assert (await post(site, "/members/login", body, Cookie=cookie)).status == 401
    logged_in = await post(site, "/members/login", f"user=reader&password=practice&csrf={csrf}", Cookie=visit)
    assert (logged_in.status, logged_in.headers["location"]) == (303, "/members/orders")
    member = logged_in.headers["set-cookie"].partition(";")[0]
    assert "A1000" in (await client.get("/members/orders", Cookie=member)).text
    assert (await client.get("/members/orders?page=6", Cookie=member)).status == 404
    assert (await post(site, "/members/orders", "a=b")).status == 405

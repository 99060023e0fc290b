"""The sections of the demo site: an API with quotas, a login, a directory, profiles."""

import json

import pytest

from shoal.demo.http import MAX_FORM
from shoal.demo.sections.directory import CATEGORIES, cities
from shoal.demo.sections.practice import LIMIT, PRODUCTS, practice_sections
from shoal.demo.site import SEED, DemoSite
from tests.unit.demo.client import Client


@pytest.fixture
async def site():
    async with DemoSite(2, 2 * PRODUCTS, sections=practice_sections(PRODUCTS, SEED)) as site:
        yield site


async def get(client, path, **headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    await client.send(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    return await client.reply()


async def post(client, path, body, **headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    await client.send(f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{lines}\r\n{body}".encode())
    return await client.reply()


async def test_the_api_has_every_product_of_the_shop_in_pages(client):
    path, found = "/api/products", []
    while path:
        data = json.loads((await get(client, path, Authorization="Bearer practice-1")).body)
        found += [one["sku"] for one in data["products"]]
        path = data["next"]
    assert found == [f"S0-{number:05d}" for number in range(PRODUCTS)]


@pytest.mark.parametrize("path", ["/api/products", "/people", "/people/nobody"])
async def test_a_token_has_a_quota_and_the_headers_say_what_is_left(client, path):
    assert (await get(client, path)).status == 401
    assert (await get(client, path, Authorization="Bearer stolen")).status == 401
    left = []
    for _ in range(LIMIT):
        left.append(
            int((await get(client, path, Authorization="Bearer practice-1")).headers["x-ratelimit-remaining"])
        )
    assert left == list(range(LIMIT - 1, -1, -1))
    refused = await get(client, path, Authorization="Bearer practice-1")
    assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
    assert (await get(client, path, Authorization="Bearer practice-2")).status in (200, 404)


async def test_orders_are_for_members_only(site, client):
    assert (await get(client, "/members/orders")).status == 401
    form = await get(client, "/members/login")
    visit = form.headers["set-cookie"].partition(";")[0]
    csrf = form.text.partition('name="csrf" value="')[2].partition('"')[0]
    for body, cookie in (
        (f"user=reader&password=wrong&csrf={csrf}", visit),
        (f"user=reader&password=practice&csrf={csrf}", "visit=other"),
        ("user=reader&password=practice", visit),
    ):
        async with Client(site.seeds[0]) as other:
            assert (await post(other, "/members/login", body, Cookie=cookie)).status == 401
    async with Client(site.seeds[0]) as other:
        logged_in = await post(
            other, "/members/login", f"user=reader&password=practice&csrf={csrf}", Cookie=visit
        )
    assert (logged_in.status, logged_in.headers["location"]) == (303, "/members/orders")
    member = logged_in.headers["set-cookie"].partition(";")[0]
    assert "A1000" in (await get(client, "/members/orders", Cookie=member)).text
    assert (await get(client, "/members/orders?page=6", Cookie=member)).status == 404


async def test_the_directory_leads_from_states_to_the_same_businesses_each_time(client):
    assert len(cities()) == 51 and {len(found) for found in cities().values()} == {4}
    for path in ("/listings/", "/listings/NY/", "/listings/NY/new-york/"):
        assert (await get(client, path)).status == 200
    pages = [(await get(client, f"/listings/NY/new-york/{CATEGORIES[0]}")).body for _ in range(2)]
    assert pages[0] == pages[1]
    for path in ("/listings/XX/", "/listings/NY/atlantis/", "/listings/NY/new-york/unicorns"):
        assert (await get(client, path)).status == 404


async def test_a_person_has_a_profile_and_a_page_of_links(client):
    token = {"Authorization": "Bearer practice-1"}
    (first, *_) = json.loads((await get(client, "/people", **token)).body)["logins"]
    assert json.loads((await get(client, f"/people/{first}", **token)).body)["login"] == first
    assert (await get(client, f"/people/{first}/links")).status == 200
    assert (await get(client, "/people/nobody/links")).status == 404
    assert (await get(client, "/people?page=none", **token)).status == 404


async def test_only_the_first_shop_has_sections_and_only_the_login_takes_a_form(site, client):
    async with Client(site.seeds[1]) as other:
        assert (await get(other, "/listings/")).status == 404
    for path in ("/listings/", "/members/orders", "/"):
        async with Client(site.seeds[0]) as other:
            assert (await post(other, path, "a=b")).status == 405
    async with Client(site.seeds[0]) as other:
        assert (await post(other, "/members/login", "x" * (MAX_FORM + 1))).status == 413


async def test_a_form_may_arrive_in_pieces(site):
    async with Client(site.seeds[0]) as client:
        for piece in (b"POST /members/login HTTP/1.1\r\nContent-", b"Length: 9\r\n\r\nuser=", b"ann&"):
            await client.send(piece)
        assert (await client.reply()).status == 401

"""The recipes of the cookbook do what they say."""

import json

from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import typed
from tests.unit.docs.pages import DOCS, blocks

COOKBOOK = (DOCS / "how-to" / "cookbook.md").read_text()


def recipe(holding):
    """Return the names that the recipe with these words defines, and its code."""
    (code,) = [block.code for block in blocks(COOKBOOK, "python") if holding in block.code]
    names = {"__name__": "recipe"}
    exec(code, names)
    return names, code


async def test_the_recipe_with_arguments_runs_from_the_command_line(tmp_path):
    _, code = recipe("listing_pages")
    async with Origin(lambda path: Answer("<div class=product><h2>Lamp</h2></div>")) as site:
        code = code.replace("https://shop.example.com", site.url)
        code = code.replace('rate="2/s"', f'rate=None, robots=False, allow_private="127.0.0.1:{site.port}"')
        (tmp_path / "shop.py").write_text(code)
        words = ("-a", "category=lamps", "-a", "pages=2", "--out", "lamps.jsonl")
        ran = await typed("run", "shop.py", *words, folder=tmp_path)
    assert ran.code == 0, ran.err
    items = [json.loads(line) for line in (tmp_path / "lamps.jsonl").read_text().splitlines()]
    assert items == 2 * [{"category": "lamps", "name": "Lamp"}]
    assert site.visits == {"/lamps?page=1": 1, "/lamps?page=2": 1}


def test_the_recipe_with_a_login_follows_orders():
    club = recipe("club = Scraper")[0]["club"]
    harvest = club.parse(
        "<p class=order><b class=number>7</b> <i class=total>9</i></p><a class=next href=?p=2>",
        url="https://club.example.com/orders",
    )
    assert harvest.items == [{"number": "7", "total": "9"}]
    assert [task.url for task in harvest.follow] == ["https://club.example.com/orders?p=2"]
    assert club.login_function and club.settings.sessions.size == 1


def test_the_recipe_with_an_api_sends_a_header_with_some_requests():
    api = recipe("api = Scraper")[0]["api"]
    body = json.dumps({"users": [{"id": 1, "name": "Ann"}], "next": "/users?page=2"})
    harvest = api.parse(body, url="https://api.example.com/users?page=1")
    assert harvest.items == [{"id": 1, "name": "Ann"}]
    assert [(task.step, task.request and dict(task.request.headers)) for task in harvest.follow] == [
        ("orders", {"Accept": "application/json"}),
        ("users", None),
    ]


async def test_the_recipe_with_files_stores_each_with_its_item(tmp_path):
    _, code = recipe("photos = Scraper")
    picture = Answer(b"\x89PNG", headers={"Content-Type": "image/png"})
    async with Origin(
        lambda path: picture if path == "/a.png" else Answer("<img class=photo src=/a.png alt=Lamp>")
    ) as site:
        code = code.replace("https://photos.example.com", site.url)
        code = code.replace('rate="2/s"', f'rate=None, robots=False, allow_private="127.0.0.1:{site.port}"')
        (tmp_path / "photos.py").write_text(code)
        ran = await typed("run", "photos.py", "--out", "photos.jsonl", folder=tmp_path)
    assert ran.code == 0, ran.err
    (item,) = [json.loads(line) for line in (tmp_path / "photos.jsonl").read_text().splitlines()]
    assert (item["title"], item["photo"]["size"]) == ("Lamp", 4)
    assert (tmp_path / "files" / item["photo"]["path"]).read_bytes() == b"\x89PNG"


def test_the_recipe_with_sites_has_their_settings():
    sites = recipe("*.slow.example")[0]["prices"].settings.sites
    assert sites.find("https://www.slow.example/").delay.total_seconds() == 10
    assert sites.find("https://api.example.com/a").headers == {"Accept": "application/json"}


def test_the_recipe_for_a_notebook_is_a_coroutine():
    assert recipe("async def lamps")[0]["lamps"]

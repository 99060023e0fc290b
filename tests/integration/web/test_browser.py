"""The pages as a person uses them, in a real browser under the real policy."""

import asyncio

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Bury, Done, Task
from tests.integration.web.conftest import OPERATOR, Place, every_path
from tests.integration.web.window import Window, window

HIDE = """Object.defineProperty(document, "hidden", {{ value: {}, configurable: true }});
document.dispatchEvent(new Event("visibilitychange"));"""
PAGES = ("", "/items", "/rejects", "/dead", "/tasks", "/proxies")


async def books(place: Place, pages: int = 6) -> str:
    """Return the id of a run of which one page is done and one is dead."""
    run = await place.queue.start_run("books")
    tasks = [Task(url=f"https://shop{n}.example/a/long/address/{n}", step="listing") for n in range(pages)]
    await place.queue.enqueue(run.id, tasks)
    await place.queue.beat("machine-1-abcd", run_id=run.id, info={"errors": {"HttpStatus": 2}})
    done, dead = (await place.queue.claim("machine-1-abcd", run_id=run.id, limit=2)).leases
    item = {"title": "A book", "about": "long " * 50, "link": "https://shop.example/1"}
    await place.queue.settle([Done(done, items=[item]), Bury(dead, "HttpStatus: 404")])
    return run.id


async def settle_one(place: Place, run_id: str) -> None:
    """Have one more page done."""
    (lease,) = (await place.queue.claim("machine-1-abcd", run_id=run_id, limit=1)).leases
    await place.queue.settle([Done(lease)])


def click(words: str) -> str:
    """Return a script that presses the button or link with these words."""
    found = "[...document.querySelectorAll('main a, main button')]"
    return f"{found}.find((one) => one.innerText === '{words}').click()"


async def test_a_person_logs_in_with_a_token_and_comes_to_the_page_that_was_asked_for(place, browser):
    run_id = await books(place)
    stranger = await window(browser)
    await stranger.open(f"{place.address}/runs/{run_id}")
    assert await stranger.does("location.pathname") == "/login"
    await stranger.does(f"document.querySelector('[name=token]').value = '{OPERATOR}'")
    await stranger.follow("document.querySelector('form').requestSubmit()")
    assert await stranger.does("location.pathname") == f"/runs/{run_id}"


async def test_no_page_breaks_its_own_policy_or_asks_another_server(place, visitor):
    run_id = await books(place)
    for path in every_path(run_id, PAGES):
        await visitor.open(f"{place.address}{path}")
        if path == "/":
            await visitor.until("!!document.querySelector('.u-wrap canvas')")
    assert visitor.complaints == []
    assert {url.partition("/")[0] + "//" + url.split("/")[2] for url in visitor.asked} == {place.address}


async def test_counts_and_title_change_while_one_looks(place, visitor):
    run_id = await books(place)
    await visitor.open(f"{place.address}/runs/{run_id}")
    assert await visitor.does("document.title") == "1 of 6 · books · Shoal"
    await settle_one(place, run_id)
    await visitor.until("document.title === '2 of 6 · books · Shoal'")
    await visitor.until("document.querySelector('#head dd').innerText === '2'")


@pytest.mark.parametrize("role", ["operator", "reader"])
async def test_pausing_and_resuming_by_the_buttons(place, visitor, role):
    run_id = await books(place)
    await place.admit(visitor, role)
    await visitor.open(f"{place.address}/runs/{run_id}")
    if role == "reader":
        assert not await visitor.does("document.querySelectorAll('main button:not([data-copy])').length")
        return
    await visitor.follow(click("Pause"))
    assert (await place.queue.run(run_id)).state == "paused"
    await visitor.follow(click("Resume"))
    assert (await place.queue.run(run_id)).state == "running"


async def test_cancelling_is_asked_once_more(place, visitor):
    run_id = await books(place)
    await visitor.open(f"{place.address}/runs/{run_id}")
    await visitor.follow(click("Cancel"))
    assert (await place.queue.run(run_id)).state == "running"
    await visitor.follow(click("Cancel the run"))
    assert (await place.queue.run(run_id)).state == "cancelled"


async def test_a_ticked_letter_is_replayed_after_it_was_said_how_many(place, visitor):
    run_id = await books(place)
    await visitor.open(f"{place.address}/runs/{run_id}/dead")
    await visitor.does("document.querySelector('[name=id]').click()")
    await visitor.follow(click("Replay the ticked"))
    assert "Replay 1 dead letter?" in await visitor.does("document.body.innerText")
    await visitor.follow(click("Replay 1 dead letter"))
    assert (await place.queue.stats(run_id)).dead == 0
    assert "Back to pending: 1." in await visitor.does("document.body.innerText")


async def test_a_hidden_tab_lets_go_of_its_stream_and_takes_it_up_again(place, visitor):
    run_id = await books(place)
    await visitor.open(f"{place.address}/runs/{run_id}")
    await until_clients(place, 1)
    await visitor.does(HIDE.format("true"))
    await until_clients(place, 0)
    await settle_one(place, run_id)
    await visitor.does(HIDE.format("false"))
    await until_clients(place, 1)
    await visitor.until("document.title === '2 of 6 · books · Shoal'")
    await visitor.until("document.querySelector('#head dd').innerText === '2'")


async def test_a_page_says_that_the_queue_is_away_and_goes_on_when_it_is_back(place, visitor, monkeypatch):
    run_id = await books(place)

    async def away():
        raise QueueUnavailable("sqlite:///queue.db", "the disk is gone")

    await visitor.open(f"{place.address}/runs/{run_id}")
    with monkeypatch.context() as patch:
        patch.setattr(place.queue, "runs", away)
        await visitor.until("document.querySelector('#trouble').innerText.includes('the disk is gone')")
        assert await visitor.does("document.querySelector('#head dd').innerText") == "1"
    await visitor.until("!document.querySelector('#trouble').innerText")


async def test_every_page_says_what_it_has_to_say_without_scripts(place, visitor):
    run_id = await books(place)
    await visitor.call("Emulation.setScriptExecutionDisabled", value=True)
    for path, word in (
        ("/", "books"),
        (f"/runs/{run_id}", "machine-1-abcd"),
        (f"/runs/{run_id}/items", "A book"),
    ):
        await visitor.open(f"{place.address}{path}")
        text = await visitor.call("DOM.getDocument", depth=0)
        found = await visitor.call("DOM.getOuterHTML", nodeId=text["root"]["nodeId"])
        assert word in found["outerHTML"], path


@pytest.mark.parametrize("width", [1280, 400])
async def test_no_page_is_wider_than_the_screen(place, visitor, width):
    run_id = await books(place)
    await visitor.size(width)
    for path in every_path(run_id, PAGES):
        await visitor.open(f"{place.address}{path}")
        assert await visitor.does("document.documentElement.scrollWidth <= innerWidth"), path


async def test_keys_alone_reach_every_button_and_show_where_they_are(place, visitor):
    run_id = await books(place)
    await visitor.open(f"{place.address}/runs/{run_id}")
    reached: set[str] = set()
    for _ in range(40):
        await press_tab(visitor)
        reached.add(await visitor.does("document.activeElement.innerText || ''"))
    assert reached >= {"Overview", "Items", "Dead letters", "Copy", "Pause", "Cancel", "Log out"}
    assert "solid" in await visitor.does("getComputedStyle(document.activeElement).outlineStyle")


async def press_tab(visitor: Window) -> None:
    for kind in ("rawKeyDown", "keyUp"):
        await visitor.call(
            "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
        )


async def until_clients(place: Place, count: int) -> None:
    """Wait until so many streams are open."""
    async with asyncio.timeout(30):
        while place.site.sampler.clients != count:
            await asyncio.sleep(0.02)

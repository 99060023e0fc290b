"""The pages in a real browser, with the real Content-Security-Policy."""

import asyncio
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Bury, Done, Task
from shoal.worker.counters import FileCounts, MissingPages
from shoal.worker.left_out import WorkerLeftOut, left_out_topic
from tests.cases import long
from tests.integration.web.browser import BrowserTab, open_tab
from tests.integration.web.conftest import OPERATOR, Dashboard, all_paths

HIDE = """Object.defineProperty(document, "hidden", {{ value: {}, configurable: true }});
document.dispatchEvent(new Event("visibilitychange"));"""
PAGES = ("", "/items", "/rejects", "/dead", "/tasks", "/proxies", "/tokens")


async def make_run(dashboard: Dashboard, pages: int = 6) -> str:
    """Return the id of a run with one completed and one dead task."""
    run = await dashboard.queue.start_run("books")
    tasks = [Task(url=f"https://shop{n}.example/a/long/address/{n}", step="listing") for n in range(pages)]
    await dashboard.queue.enqueue(run.id, tasks)
    await dashboard.queue.beat("machine-1-abcd", run_id=run.id, info={"errors": {"HttpStatus": 2}})
    done, dead = (await dashboard.queue.claim("machine-1-abcd", run_id=run.id, limit=2)).leases
    item = {"title": "A book", "about": "long " * 50, "link": "https://shop.example/1"}
    await dashboard.queue.settle([Done(done, items=[item]), Bury(dead, "HttpStatus: 404")])
    return run.id


async def complete_one_task(dashboard: Dashboard, run_id: str) -> None:
    """Complete one more task."""
    (lease,) = (await dashboard.queue.claim("machine-1-abcd", run_id=run_id, limit=1)).leases
    await dashboard.queue.settle([Done(lease)])


def click(words: str) -> str:
    """Return a script that clicks the button or link with this text."""
    found = "[...document.querySelectorAll('main a, main button')]"
    return f"{found}.find((one) => one.innerText === '{words}').click()"


async def test_login_returns_to_the_requested_page(dashboard, browser):
    run_id = await make_run(dashboard)
    anonymous = await open_tab(browser)
    await anonymous.open(f"{dashboard.address}/runs/{run_id}")
    assert await anonymous.evaluate("location.pathname") == "/login"
    await anonymous.evaluate(f"document.querySelector('[name=token]').value = '{OPERATOR}'")
    await anonymous.follow("document.querySelector('form').requestSubmit()")
    assert await anonymous.evaluate("location.pathname") == f"/runs/{run_id}"


async def test_no_page_violates_the_policy_or_requests_another_server(dashboard, tab):
    run_id = await make_run(dashboard)
    for path in all_paths(run_id, PAGES):
        await tab.open(f"{dashboard.address}{path}")
        if path == "/":
            await tab.until("!!document.querySelector('.u-wrap canvas')")
    assert tab.errors == []
    assert {url.partition("/")[0] + "//" + url.split("/")[2] for url in tab.requested} == {dashboard.address}


async def test_a_chart_without_rates_says_so_instead_of_showing_an_axis(dashboard, tab):
    run_id = await make_run(dashboard, pages=2)  # both are settled: it is finished
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    await tab.until(
        "(chart => chart && !chart.querySelector('.u-wrap') && getComputedStyle(chart, '::before').content)"
        "(document.querySelector('.chart.empty')) === '\"No rates were recorded.\"'"
    )


async def test_one_sample_has_no_rate_and_shows_no_axis_either(dashboard, tab, monkeypatch):
    monkeypatch.setattr(dashboard.context.sampler, "_interval", timedelta(hours=1))
    await tab.open(dashboard.address)
    await tab.until("document.querySelectorAll('.chart.empty').length")


async def test_counts_and_title_are_updated_live(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    assert await tab.evaluate("document.title") == "1 of 6 · books · Shoal"
    await complete_one_task(dashboard, run_id)
    await tab.until("document.title === '2 of 6 · books · Shoal'")
    await tab.until("document.querySelector('#head dd').innerText === '2'")


async def test_the_pause_and_resume_buttons(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    await tab.follow(click("Pause"))
    assert (await dashboard.queue.run(run_id)).state == "paused"
    await tab.follow(click("Resume"))
    assert (await dashboard.queue.run(run_id)).state == "running"


async def test_cancel_asks_for_confirmation(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    await tab.follow(click("Cancel"))
    assert (await dashboard.queue.run(run_id)).state == "running"
    await tab.follow(click("Cancel run"))
    assert (await dashboard.queue.run(run_id)).state == "cancelled"


async def test_a_selected_letter_is_replayed_after_confirmation(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}/dead")
    await tab.evaluate("document.querySelector('[name=id]').click()")
    await tab.follow(click("Replay selected"))
    assert "Replay 1 dead letter?" in await tab.evaluate("document.body.innerText")
    await tab.follow(click("Replay 1 dead letter"))
    assert (await dashboard.queue.stats(run_id)).dead == 0
    assert "Dead letters replayed: 1." in await tab.evaluate("document.body.innerText")


async def test_a_hidden_tab_closes_its_stream_and_reopens_it(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    await wait_for_clients(dashboard, 1)
    await tab.evaluate(HIDE.format("true"))
    await wait_for_clients(dashboard, 0)
    await complete_one_task(dashboard, run_id)
    await tab.evaluate(HIDE.format("false"))
    await wait_for_clients(dashboard, 1)
    await tab.until("document.title === '2 of 6 · books · Shoal'")
    await tab.until("document.querySelector('#head dd').innerText === '2'")


async def test_a_page_shows_that_the_queue_is_unavailable_and_recovers(dashboard, tab, monkeypatch):
    run_id = await make_run(dashboard)

    async def unavailable():
        raise QueueUnavailable("sqlite:///queue.db", "the disk is gone")

    await tab.open(f"{dashboard.address}/runs/{run_id}")
    with monkeypatch.context() as patch:
        patch.setattr(dashboard.queue, "runs", unavailable)
        await tab.until("document.querySelector('#queue-error').innerText.includes('the disk is gone')")
        assert await tab.evaluate("document.querySelector('#head dd').innerText") == "1"
    await tab.until("!document.querySelector('#queue-error').innerText")


async def test_every_page_works_without_scripts(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.call("Emulation.setScriptExecutionDisabled", value=True)
    for path, word in (
        ("/", "books"),
        (f"/runs/{run_id}", "machine-1-abcd"),
        (f"/runs/{run_id}/items", "A book"),
    ):
        await tab.open(f"{dashboard.address}{path}")
        text = await tab.call("DOM.getDocument", depth=0)
        found = await tab.call("DOM.getOuterHTML", nodeId=text["root"]["nodeId"])
        assert word in found["outerHTML"], path


async def test_times_are_shown_in_the_time_zone_of_the_browser_with_utc_as_tooltip(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    local = (await dashboard.queue.run(run_id)).started_at.astimezone(ZoneInfo("Asia/Kolkata"))
    for _ in range(2):  # also after an update
        assert await tab.evaluate("document.querySelector('time').innerText") == f"{local:%Y-%m-%d %H:%M:%S}"
        await complete_one_task(dashboard, run_id)
        await tab.until("document.querySelector('#head dd').innerText === '2'")
    utc = local.astimezone(UTC)
    assert await tab.evaluate("document.querySelector('time').title") == f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    assert "Asia/" in await tab.evaluate("document.querySelector('footer').innerText")


async def test_all_dead_letters_of_a_page_are_selected_with_one_click(dashboard, tab):
    run_id = await make_run(dashboard)
    (lease,) = (await dashboard.queue.claim("machine-1-abcd", run_id=run_id, limit=1)).leases
    await dashboard.queue.settle([Bury(lease, "HttpStatus: 404")])
    await tab.open(f"{dashboard.address}/runs/{run_id}/dead")
    await tab.evaluate("document.querySelector('[data-select-all] input').click()")
    assert await tab.evaluate("document.querySelectorAll('[name=id]:checked').length") == 2


@pytest.mark.parametrize("width", [390, *long(1280)])
async def test_no_page_is_wider_than_the_screen(dashboard, tab, width):
    run_id = await make_run(dashboard)
    address = f"https://shop.example/{'long' * 30}"
    left_out = WorkerLeftOut(
        links={"out of scope": (7, address)},
        missing=MissingPages(count=1, examples=[address]),
        files=FileCounts(),
        is_final=True,
    )
    await dashboard.queue.write_notes(left_out_topic(run_id), {"one": msgspec.json.encode(left_out)})
    await dashboard.queue.enqueue(run_id, [Task(url=f"{address}/CA", step="listing", partition="long" * 10)])
    await dashboard.queue.start_run("books", run_id=f"{'a-long-name-' * 4}20260215_120000")
    await tab.size(width)
    for path in all_paths(run_id, PAGES):
        await tab.open(f"{dashboard.address}{path}")
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        # Nor is a table: its columns would be cut.
        widths = "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
        assert not any(await tab.evaluate(widths)), path


async def test_a_long_queue_address_is_cut_and_leaves_log_out_in_its_row(dashboard, tab):
    await tab.size(1280)
    await tab.open(dashboard.address)
    await tab.evaluate(
        "document.querySelector('.queue-status code').innerText = 'postgresql://' + 'x'.repeat(90)"
    )
    tops = "['.brand', '.top button'].map((one) => document.querySelector(one).getBoundingClientRect().top)"
    brand, button = await tab.evaluate(tops)
    assert abs(brand - button) < 15


async def test_every_button_is_reachable_by_keyboard_with_a_visible_focus(dashboard, tab):
    run_id = await make_run(dashboard)
    await tab.open(f"{dashboard.address}/runs/{run_id}")
    reached: set[str] = set()
    for _ in range(40):
        await press_tab(tab)
        reached.add(await tab.evaluate("document.activeElement.innerText || ''"))
    assert reached >= {"Overview", "Items 1", "Dead letters 1", "Copy", "Pause", "Cancel", "Log out"}
    assert "solid" in await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")


async def press_tab(tab: BrowserTab) -> None:
    for kind in ("rawKeyDown", "keyUp"):
        await tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)


async def wait_for_clients(dashboard: Dashboard, count: int) -> None:
    """Wait until `count` streams are open."""
    async with asyncio.timeout(30):
        while dashboard.context.sampler.clients != count:
            await asyncio.sleep(0.02)

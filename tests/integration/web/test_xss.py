"""What was scraped is shown and never run: on every page, in every event, in a real browser."""

import html
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse

from shoal.core.errors import ShoalError
from shoal.core.model import Bury, Done, Reject, Task
from shoal.web import deeds, facts
from shoal.web.guard import Guest
from shoal.web.pages import dead, fleet, overview, records, tasks
from shoal.web.serving import bind
from tests.integration.web.conftest import opened, serving
from tests.integration.web.payloads import PAYLOADS
from tests.integration.web.window import window

ENOUGH = 150
CONVICTED = 100  # of them a page must be that does not escape, on a busy machine too
BATCH = 16  # payloads on one page of the control
CONTEXTS = {
    "text": lambda text: f"<p>{text}</p>",
    "double": lambda text: f'<input value="{text}">',
    "single": lambda text: f"<p title='{text}'>p</p>",
    "bare": lambda text: f"<p title={text}>p</p>",
    "link": lambda text: f'<a href="{html.escape(text)}">a</a>',
}
WATCH = "window.hits = []; window.hit = (number) => { top.hits.push(number); };"
# Touches all that could have been planted, and goes nowhere by it.
PROVOKE = """(async (...pages) => {
  const leads = (address) => /^javascript:/i.test(address || "");
  for (const page of pages) {
    page.addEventListener("click", (event) => {
      const link = event.target.closest("a, button");
      if (!link || !leads(link.href || link.formAction)) event.preventDefault();
    }, true);
    page.addEventListener("submit", (event) => {
      if (!leads(event.target.action)) event.preventDefault();
    }, true);
    for (const one of page.querySelectorAll("body *")) {
      for (const kind of ["mouseover", "mouseenter", "focus", "toggle"]) one.dispatchEvent(new Event(kind));
      if (one.click && !one.closest("[data-copy]")) one.click();
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  return window.hits;
})"""
HERE = f"{PROVOKE}(document)"
FRAMES = "[...document.querySelectorAll('iframe')].map((one) => one.contentDocument).filter(Boolean)"
IN_FRAMES = f"{PROVOKE}(...{FRAMES})"


@pytest.fixture
async def place(tmp_path):
    """A place that looks less often: what is looked at here is much."""
    async with opened(tmp_path, every=timedelta(seconds=1)) as made:
        yield made


def test_there_are_enough_payloads_and_no_two_are_the_same():
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= ENOUGH


@pytest.mark.long
async def test_nothing_that_was_scraped_runs_on_any_page_or_event(place, visitor, monkeypatch):
    show_everything(monkeypatch)
    run, entered = await poisoned(place)
    assert all(count >= ENOUGH for count in entered.values()), entered
    # Without the policy that would stop it: the escaping must hold by itself.
    await visitor.call("Page.setBypassCSP", enabled=True)
    await visitor.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    shown: Counter[str] = Counter()
    for path in await paths_of(place, run):
        await visitor.open(f"{place.address}{path}")
        assert await visitor.does(HERE) == [], path
        shown[path.partition("?")[0].rpartition("/")[2]] += await visitor.does(
            "document.documentElement.outerHTML.split('hit(').length - 1"
        )
    # Each kind of page did show what it was given, so that it had its chance.
    for page in (run.id, "items", "rejects", "dead", "tasks", "workers", "hosts", "actions", "runs"):
        assert shown[page] >= ENOUGH, (page, shown)


async def test_nothing_runs_that_comes_by_an_event_while_the_page_is_open(place, visitor, monkeypatch):
    show_everything(monkeypatch)
    run = await place.queue.start_run("books")
    await place.queue.enqueue(run.id, [Task(url="https://shop.example/", step="listing")])
    await visitor.call("Page.setBypassCSP", enabled=True)
    await visitor.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    other = await window_like(visitor, place)
    await visitor.open(f"{place.address}/runs/{run.id}")
    await other.open(f"{place.address}/")
    await poison(place, run)
    for tab in (visitor, other):
        await tab.until(f"document.body.innerHTML.split('hit(').length > {ENOUGH}")
        assert await tab.does(HERE) == []


@pytest.mark.long
async def test_a_page_that_does_not_escape_is_convicted_by_the_same_test(browser):
    at = bind("127.0.0.1", 0)
    made = await window(browser)
    await made.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    convicted: set[int] = set()
    async with serving(careless(), at):
        base = f"http://127.0.0.1:{at.getsockname()[1]}"
        for first in range(0, len(PAYLOADS), BATCH):
            await made.open(f"{base}/{first}")
            await made.does(IN_FRAMES)
            await made.does("new Promise((resolve) => setTimeout(resolve, 200))")  # some act a little later
            convicted |= set(await made.does("window.hits"))
    assert len(convicted) >= CONVICTED, [PAYLOADS[n] for n in range(len(PAYLOADS)) if n not in convicted]


def careless():
    """Return a server that shows payloads as they are, each in a frame of its own."""
    web = FastAPI()

    @web.get("/{first}")
    async def frames(first: int) -> HTMLResponse:
        numbers = range(first, min(first + BATCH, len(PAYLOADS)))
        made = [f"<iframe src=/{number}/{name}></iframe>" for number in numbers for name in CONTEXTS]
        return HTMLResponse(f"<!doctype html>{''.join(made)}")

    @web.get("/{number}/{context}")
    async def frame(number: int, context: str) -> HTMLResponse:
        if context not in CONTEXTS:
            return HTMLResponse("", status_code=404)  # what a payload itself asks for
        return HTMLResponse(f"<!doctype html><title>t</title>{CONTEXTS[context](PAYLOADS[number])}")

    return web


def show_everything(monkeypatch):
    """Have every page hold all payloads at once."""
    for module in (dead, fleet, records, tasks):
        monkeypatch.setattr(module, "ROWS", 1_000)
    monkeypatch.setattr(overview, "RUNS_ON_A_PAGE", 1_000)
    for name in ("MOST_ERRORS", "MOST_TREATED", "MOST_PARTITIONS", "MOST_STEPS", "MOST_WORKERS"):
        monkeypatch.setattr(facts, name, 1_000)
    monkeypatch.setattr("shoal.web.shown.MOST_COLUMNS", 1_000)


async def window_like(visitor, place):
    """Return another window of the same browser, watched as the first."""
    other = await window(visitor.wire)
    await place.admit(other)
    await other.call("Page.setBypassCSP", enabled=True)
    await other.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    return other


async def poisoned(place):
    """Return a run with payloads wherever the queue lets them in, and how many got where."""
    run = await place.queue.start_run("books")
    entered = await poison(place, run)
    await place.queue.enqueue(run.id, [Task(key="columns", step="columns")])
    (lease,) = (await place.queue.claim("me", run_id=run.id, steps=["columns"])).leases
    await place.queue.settle([Done(lease, items=[dict.fromkeys(PAYLOADS, "x")])])
    return run, entered


async def poison(place, run):
    """Put the payloads in, and return how many got where."""
    entered: Counter[str] = Counter()
    guest = Guest("operator", "127.0.0.1")
    for number, text in enumerate(PAYLOADS):
        for kind, deed in (
            ("scraper", lambda text=text: place.queue.start_run(text)),
            ("host", lambda text=text: place.queue.slow_host(text, timedelta(seconds=2))),
            ("action", lambda text=text: deeds.pause_host(place.site, guest, text, timedelta(0))),
            ("worker", lambda text=text: beat(place, run, text)),
        ):
            with suppress(ShoalError):
                await deed()
                entered[kind] += 1
        tasks = [
            Task(url=f"https://shop{number}.example/{text}?q={text}", step="listing"),
            Task(key=text, payload={text: text}, step=text, partition=text),
            Task(key=f"dead {text}", payload={"title": text}, step="book"),
        ]
        report = await place.queue.enqueue(run.id, tasks, on_invalid=lambda *_: None)
        entered["task"] += report.added > 1
        entered["settled"] += await settle(place, run, text)
    return entered


async def beat(place, run, text):
    """Send a heartbeat of a worker whose every word is hostile."""
    info = {"errors": {text: 1}, "steps": [text], "partitions": [text], "last_hour": text, "memory": text}
    await place.queue.beat(text, run_id=run.id, info=info)


async def settle(place, run, text):
    """Settle what there is to do with hostile items, rejects and errors."""
    grant = await place.queue.claim(f"worker {text}", run_id=run.id, limit=10, steps=["book"])
    for lease in grant.leases:
        await place.queue.settle([Bury(lease, text)])
    grant = await place.queue.claim(f"worker {text}", run_id=run.id, limit=1, steps=["listing"])
    item = {"title": text, "link": text, "nested": {"a": [text]}, "long": text * 10}
    for lease in grant.leases:
        await place.queue.settle([Done(lease, items=[item, text], rejects=[Reject(data=item, reason=text)])])
    return bool(grant.leases)


async def paths_of(place, run):
    """Return every page, also those that say again what stands in their address."""
    base = f"/runs/{run.id}"
    letters = [letter.id async for letter in place.queue.dead(run.id)]
    fixed = ["/", "/runs", "/workers", "/hosts", "/actions", base]
    # Apart, for a table of all columns and all rows is more than a browser likes.
    names = (
        "items?step=columns",
        "items?step=listing",
        "rejects",
        "dead",
        "tasks",
        "proxies",
        "cancel",
        "replay?all=1",
    )
    fixed += [f"{base}/{name}" for name in names]
    fixed += [f"{base}/dead/{letter}" for letter in letters[::8]]
    return fixed + [path for text in PAYLOADS[::12] for path in reflecting(base, text)]


def reflecting(base, text):
    """Return addresses with a payload in each place that a page repeats."""
    given = urlencode({"error": text, "host": text, "step": text, "key": text, "run": text, "done": text})
    return [
        f"{base}/dead?{given}",
        f"{base}/drop?all=1&{given}",
        f"{base}/tasks?{given}",
        f"/hosts?{given}",
        f"/{quote(text, safe='')}",
        f"/login?{urlencode({'next': text, 'ticket': text})}",
    ]

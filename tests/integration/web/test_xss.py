"""Scraped data is displayed and never executed: on every page, in every event, in a real browser."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest

from shoal.core.errors import ShoalError
from shoal.core.model import Bury, Done, Reject, Task
from shoal.web.actions import OperatorActions
from shoal.web.auth import Principal
from shoal.web.pages import dead, fleet, lists, runs
from shoal.web.views import models
from tests.integration.web.browser import open_tab
from tests.integration.web.conftest import open_dashboard
from tests.integration.web.payloads import PAYLOADS

MIN_PAYLOADS = 150
WATCH = "window.hits = []; window.hit = (number) => { top.hits.push(number); };"
# Triggers everything that could have been injected, without navigating.
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


@pytest.fixture
async def dashboard(tmp_path):
    """A dashboard with a longer interval: each sample is large here."""
    async with open_dashboard(tmp_path, interval=timedelta(seconds=1)) as made:
        yield made


def test_there_are_enough_payloads_and_no_two_are_the_same():
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= MIN_PAYLOADS


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_no_payload_runs_on_any_page(dashboard, tab, monkeypatch):
    show_everything(monkeypatch)
    run, entered = await make_poisoned_run(dashboard)
    assert all(count >= MIN_PAYLOADS for count in entered.values()), entered
    # Without the CSP: the escaping must be sufficient on its own.
    await tab.call("Page.setBypassCSP", enabled=True)
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    shown: Counter[str] = Counter()
    for path in await paths_of(dashboard, run):
        await tab.open(f"{dashboard.address}{path}")
        assert await tab.evaluate(HERE) == [], path
        shown[path.partition("?")[0].rpartition("/")[2]] += await tab.evaluate(
            "document.documentElement.outerHTML.split('hit(').length - 1"
        )
    # Each kind of page displayed the payloads, so they had a chance to run.
    for page in (run.id, "items", "rejects", "dead", "tasks", "workers", "hosts", "actions", "runs"):
        assert shown[page] >= MIN_PAYLOADS, (page, shown)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_no_payload_runs_that_arrives_in_an_event(dashboard, tab, monkeypatch):
    show_everything(monkeypatch)
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://shop.example/", step="listing")])
    await tab.call("Page.setBypassCSP", enabled=True)
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    other = await open_second_tab(tab, dashboard)
    await tab.open(f"{dashboard.address}/runs/{run.id}")
    await other.open(f"{dashboard.address}/")
    await add_payloads(dashboard, run)
    for each in (tab, other):
        await each.until(f"document.body.innerHTML.split('hit(').length > {MIN_PAYLOADS}")
        assert await each.evaluate(HERE) == []


def show_everything(monkeypatch):
    """Raise the limits, so that every page displays all payloads."""
    for module in (dead, fleet, lists):
        monkeypatch.setattr(module, "ROWS", 1_000)
    monkeypatch.setattr(lists, "ITEM_ROWS", 1_000)
    monkeypatch.setattr(runs, "RUNS_PER_PAGE", 1_000)
    for name in ("MAX_ERRORS", "MAX_LIMITED_HOSTS", "MAX_PARTITIONS", "MAX_STEPS", "MAX_WORKERS"):
        monkeypatch.setattr(models, name, 1_000)
    monkeypatch.setattr("shoal.web.views.format.MAX_COLUMNS", 1_000)


async def open_second_tab(tab, dashboard):
    """Return another tab of the same browser, with the same instrumentation."""
    other = await open_tab(tab.wire)
    await dashboard.log_in(other)
    await other.call("Page.setBypassCSP", enabled=True)
    await other.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    return other


async def make_poisoned_run(dashboard):
    """Return a run with payloads wherever the queue accepts them, and the counts by kind."""
    run = await dashboard.queue.start_run("books")
    entered = await add_payloads(dashboard, run)
    await dashboard.queue.enqueue(run.id, [Task(key="columns", step="columns")])
    (lease,) = (await dashboard.queue.claim("me", run_id=run.id, steps=["columns"])).leases
    await dashboard.queue.settle([Done(lease, items=[dict.fromkeys(PAYLOADS, "x")])])
    return run, entered


async def add_payloads(dashboard, run):
    """Add the payloads to a run; return the counts by kind."""
    entered: Counter[str] = Counter()
    principal = Principal("operator", "127.0.0.1")
    for number, text in enumerate(PAYLOADS):
        for kind, action in (
            ("scraper", lambda text=text: dashboard.queue.start_run(text)),
            ("host", lambda text=text: dashboard.queue.slow_host(text, timedelta(seconds=2))),
            (
                "action",
                lambda text=text: OperatorActions(dashboard.context, principal).pause_host(
                    text, timedelta(0)
                ),
            ),
            ("worker", lambda text=text: beat(dashboard, run, text)),
        ):
            with suppress(ShoalError):
                await action()
                entered[kind] += 1
        tasks = [
            Task(url=f"https://shop{number}.example/{text}?q={text}", step="listing"),
            Task(key=text, payload={text: text}, step=text, partition=text),
            Task(key=f"dead {text}", payload={"title": text}, step="book"),
        ]
        report = await dashboard.queue.enqueue(run.id, tasks, on_invalid=lambda *_: None)
        entered["task"] += report.added > 1
        entered["settled"] += await settle(dashboard, run, text)
    return entered


async def beat(dashboard, run, text):
    """Send a heartbeat with a payload in every field."""
    info = {"errors": {text: 1}, "steps": [text], "partitions": [text], "spans": text, "memory": text}
    await dashboard.queue.beat(text, run_id=run.id, info=info)


async def settle(dashboard, run, text):
    """Settle tasks with payloads in items, rejects and errors."""
    grant = await dashboard.queue.claim(f"worker {text}", run_id=run.id, limit=10, steps=["book"])
    for lease in grant.leases:
        await dashboard.queue.settle([Bury(lease, text)])
    grant = await dashboard.queue.claim(f"worker {text}", run_id=run.id, limit=1, steps=["listing"])
    item = {"title": text, "link": text, "nested": {"a": [text]}, "long": text * 10}
    for lease in grant.leases:
        await dashboard.queue.settle(
            [Done(lease, items=[item, text], rejects=[Reject(data=item, reason=text)])]
        )
    return bool(grant.leases)


async def paths_of(dashboard, run):
    """Return every page, also those that echo their query."""
    base = f"/runs/{run.id}"
    letters = [letter.id async for letter in dashboard.queue.dead(run.id)]
    fixed = ["/", "/runs", "/workers", "/hosts", "/actions", base]
    # Separately, because a table of all columns and all rows is too much for a browser.
    names = (
        "items?step=columns",
        "items?step=listing",
        "rejects",
        "dead",
        "tasks",
        "proxies",
        "tokens",
        "enqueue",
        "purge",
        "cancel",
        "replay?all=1",
    )
    fixed += [f"{base}/{name}" for name in names]
    fixed += [f"{base}/dead/{letter}" for letter in letters[::40]]
    return fixed + [path for text in PAYLOADS[::40] for path in reflecting_paths(base, text)]


def reflecting_paths(base, text):
    """Return URLs with a payload in every parameter that a page echoes."""
    given = urlencode({"error": text, "host": text, "step": text, "key": text, "run": text, "done": text})
    return [
        f"{base}/dead?{given}",
        f"{base}/drop?all=1&{given}",
        f"{base}/tasks?{given}",
        f"/hosts?{given}",
        f"/{quote(text, safe='')}",
        f"/login?{urlencode({'next': text, 'ticket': text})}",
    ]

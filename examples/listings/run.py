"""Runs the example: a fleet at a terminal, a worker killed, Ctrl-C, and the rest by fewer workers."""

import json
import os
import signal
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from examples.common.items import sort_items
from examples.common.patience import PATIENCE, POLL, Failure
from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import Workspace
from examples.listings.site import DEAD, REFUSING, SCRIPTED, SITE
from shoal.core.errors import BrowserMissing
from shoal.fetch.browser.process import find_chromium

EXPECTED = Path(__file__).parent / "expected.jsonl"
TARGETS, STATES, PROXIES = 510, 51, 50
ALL_TARGETS, ALL = 309_720, "sqlite:///all.db"
WORKERS, FEWER = 10, 7
PAUSE, REPORTED_PAUSE = 0.35, 14.0  # seconds on average
REJECTED = {"sponsored": 234, "no phone": 139}
OUT, LOG = "businesses.jsonl", "logs/fleet.log"
DAY, HOUR = 86_400, 3_600


def show(folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    browser = [] if _has_browser() else ["--fetch", "http"]
    with SiteOfExample("listings") as site, Workspace("listings", folder, queue, site.names) as work:
        work.test()
        # All of them once, in a file of their own: to queue them twice would only take longer.
        plan = _show_plan(work, site.names) if queue.startswith("sqlite") else []
        began = time.monotonic()
        fleet = work.open_terminal("fleet", "listings", "--stagger", "200ms", "--out", OUT, *browser)
        fleet.expect(f"Start {WORKERS} workers?")
        work.shoal("pause", "newest")  # so that nothing is done before the plan is looked at
        site.hold_after(TARGETS // 2)  # so that work is left for Ctrl-C, however busy the machine is
        fleet.type("y\n")
        work.wait_for_line(LOG, "worker started", WORKERS)
        shared = _check_partitions(work, WORKERS)
        killed = _kill_a_worker(work, site)
        site.hold_after(0)  # a worker in its pause holds no task, so Ctrl-C might find none in progress
        _wait_for_tasks(work)
        fleet.press_ctrl_c()
        fleet.expect("Finishing")
        site.go()
        stopped = _check_stop(work, fleet.process.wait(PATIENCE))
        resume = ("--resume", "newest", "--workers", str(FEWER), "--stagger", "0", "--yes", "--out", OUT)
        work.shoal("pause", "newest")  # so that nothing is done before the new plan is looked at
        rest = work.start("rest", "fleet", "listings", *resume, *browser)
        work.wait_for_line(LOG, "worker started", WORKERS + FEWER)
        fewer = _check_partitions(work, FEWER)
        work.shoal("resume", "newest")
        if rest.wait(PATIENCE):
            raise Failure(f"The rest ended with {rest.returncode}:\n{(folder / 'rest.err').read_text()}")
        seconds = time.monotonic() - began
        lines = [*plan, shared, killed, stopped, fewer, *_check_results(work, bool(browser))]
        lines += [_check_proxies(work), _check_logs(work)]
    return [*lines, *_headline(seconds)]


def _has_browser() -> bool:
    try:
        find_chromium()
    except BrowserMissing:
        return False
    return True


def _show_plan(work: Workspace, names: dict[str, str]) -> list[str]:
    """Let the launcher check and preview all targets with the report's pauses, and answer no."""
    site = names[f"127.0.0.1:{SITE}"]
    with urllib.request.urlopen(f"http://{site}/cities.csv") as cities:
        (work.folder / "all-cities.csv").write_bytes(cities.read())
    began = time.monotonic()
    axes = ("--axis", "state,city=all-cities.csv", "--axis", "category=all-categories.txt")
    template = f"http://{site}/listings/{{state}}/{{city:slug}}/{{category}}"
    source = ("--combine", template, *axes, "--partition", "state")
    words = ("fleet", "listings", "--queue", ALL, "--set", "pause=8-20s", *source)
    terminal = work.open_terminal(*words)
    terminal.expect(f"Start {WORKERS} workers?")
    seconds = time.monotonic() - began
    terminal.type("n\n")
    terminal.process.wait(PATIENCE)
    (status,) = work.read("status", "newest", "--queue", ALL)
    if status["pending"] != ALL_TARGETS or len(status["partitions"]) != STATES:
        raise Failure(f"{status['pending']} targets of {len(status['partitions'])} states were queued")
    return [f"{ALL_TARGETS:,} targets queued and their plan shown in {seconds:.0f} s; the answer was no"]


def _check_partitions(work: Workspace, workers: int) -> str:
    """Wait until all workers have states, and check that each state with work left has one of them."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        left = [one for one in work.read("partitions", "newest") if one["pending"]]
        # A state that changes its worker has the next one already.
        owners = Counter(owner for one in left for owner in one["owners"] or [one["coming"]] if owner)
        if any(len(one["owners"]) > 1 for one in left):
            raise Failure(f"A state has several workers: {left}")
        if left and len(owners) == workers and owners.total() == len(left):
            return f"{len(left)} states with work left shared by {workers} workers: none missing, none twice"
        time.sleep(POLL)
    raise Failure(f"{len(left)} states have work left, and the workers have: {dict(owners)}")


def _kill_a_worker(work: Workspace, site: SiteOfExample) -> str:
    """Resume the run, kill a worker at work as `kill -9` does, and wait until another takes its place."""
    victim = _workers(work)[0]
    work.shoal("resume", "newest")
    site.wait_for_pages(TARGETS // 20)
    os.kill(victim["info"]["pid"], signal.SIGKILL)
    work.wait_for_line(LOG, "worker restarted")
    return "a worker was killed with kill -9: replaced, its targets went to others by themselves"


def _wait_for_tasks(work: Workspace) -> None:
    """Wait until most workers have a task in progress."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        (status,) = work.read("status", "newest")
        if status["leased"] > WORKERS // 2:
            return
        time.sleep(POLL)
    raise Failure("Most workers have no task in progress")


def _workers(work: Workspace) -> list[dict[str, Any]]:
    found = work.read("workers", "newest")
    return [one for one in found if one["state"] == "running" and one["info"].get("pid")]


def _check_stop(work: Workspace, code: int) -> str:
    (status,) = work.read("status", "newest")
    if code != 3 or status["leased"] or not status["remaining"]:
        raise Failure(f"Ctrl-C: exit code {code}, {status['leased']} leases, {status['remaining']} left")
    return f"Ctrl-C: current targets finished, {status['remaining']} of {TARGETS} left, none half done"


def _check_results(work: Workspace, without_browser: bool) -> list[str]:
    skipped = f"{SCRIPTED}-" if without_browser else " "
    found, wanted = _read(work.folder / OUT, skipped), _read(EXPECTED, skipped)
    if found != wanted:
        raise Failure(f"{len(found)} items, and they are not the {len(wanted)} of {EXPECTED.name}")
    reasons = Counter(one["reason"] for one in work.read("rejects", "newest", "--limit", "1000"))
    if not without_browser and reasons != REJECTED:
        raise Failure(f"Rejected: {dict(reasons)}, not {REJECTED}")
    pages = f"the pages of {SCRIPTED} were rendered by Chromium"
    if without_browser:
        pages = f"the pages of {SCRIPTED} are left out: Chromium is not installed (tools/servers.sh chromium)"
    return [f"{len(found):,} accepted, {reasons.total()} rejected with their reason, each once", pages]


def _read(file: Path, skipped: str) -> list[str]:
    items = [json.loads(line) for line in file.read_text().splitlines()]
    return sort_items(one for one in items if not one["id"].startswith(skipped))


def _check_proxies(work: Workspace) -> str:
    states = Counter(one["state"] for one in work.read("proxies", "newest"))
    if states != {
        "good": PROXIES - len(DEAD) - len(REFUSING),
        "benched": len(DEAD),
        "blocked": len(REFUSING),
    }:
        raise Failure(f"The proxies: {dict(states)}")
    return f"{PROXIES} proxies: {len(DEAD)} dead and {len(REFUSING)} that refuse, benched for all workers"


def _check_logs(work: Workspace) -> str:
    names = sorted(file.name for file in (work.folder / "logs").rglob("*.log"))
    if names != sorted(["fleet.log", *(f"worker-{number}.log" for number in range(1, WORKERS + 1))]):
        raise Failure(f"The logs: {names}")
    return f"{len(names)} logs: one of each worker, one of the fleet"


def _headline(seconds: float) -> list[str]:
    rate = TARGETS / seconds
    work = max(0.0, seconds * WORKERS / TARGETS - PAUSE)  # of a worker at a target, apart from its pause
    days = ALL_TARGETS * (work + REPORTED_PAUSE) / WORKERS / DAY
    return [
        f"{TARGETS} targets in {seconds:.0f} s with pauses of 0.2-0.5 s: {ALL_TARGETS:,} take "
        f"{ALL_TARGETS / rate / HOUR:.1f} h at this rate, and {days:.1f} days with the report's 8-20 s",
        "the report: 7 to 9 days, 30 to 40 targets a minute; fewer workers left states undone",
    ]


if __name__ == "__main__":
    sys.exit(main("listings", show))

"""Runs the example: copies of each stage in terminals of their own, one killed, the results compared."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from examples.common.items import read_items
from examples.common.patience import PATIENCE, POLL, Failure
from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import Workspace, kill
from examples.profiles.site import LIMIT, PEOPLE, WINDOW

TOKENS = [f"practice-{number}" for number in range(1, 5)]
COPIES = {"search": 1, "profile": 2, "links": 2}
EXPECTED = Path(__file__).parent / "expected.jsonl"
HOUR = 3_600


def show(folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    with SiteOfExample("profiles") as site:
        secrets = {"SHOAL_TOKENS": ",".join(TOKENS)}
        with Workspace("profiles", folder, queue, site.names, **secrets) as work:
            work.test()
            for step, copies in COPIES.items():
                for number in range(copies):
                    _start_copy(work, step, number)
            began = time.monotonic()
            site.hold_after(PEOPLE // 2)  # of the pages of the last stage, until the copies were counted
            coordinator = work.start("coordinator", "start", "--role", "coordinator", "--json")
            # A machine loses power in the middle, and another takes its place: nobody has to do anything.
            site.wait_for_pages(PEOPLE // 3)
            kill(work.started["profile-0"])
            _start_copy(work, "profile", 2)
            at_work = _wait_for_copies(work)
            site.go()
            if coordinator.wait(PATIENCE):
                raise Failure(f"The coordinator ended with {coordinator.returncode}")
            seconds = time.monotonic() - began
            lines = [*_check_results(work), *_check_monitoring(work, at_work)]
    return [*lines, *_check_tokens(site.report), *_headline(seconds)]


def _start_copy(work: Workspace, step: str, number: int) -> None:
    logs = ("--log-dir", "-", "--log-format", "json")
    work.start(f"{step}-{number}", "start", "--role", "worker", "--steps", step, *logs)


def _wait_for_copies(work: Workspace) -> list[dict[str, Any]]:
    """Wait until all copies and the coordinator are at work, and return them."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        found = [one for one in work.read("workers", "newest") if _is_there(one)]
        if len(found) > sum(COPIES.values()):
            return found
        time.sleep(POLL)
    raise Failure(f"Only {len(found)} processes are at work")


def _is_there(worker: dict[str, Any]) -> bool:
    """Tell whether a worker lives; one that was killed is listed until its heartbeat is missed."""
    pid = worker["info"].get("pid")
    return pid is None or Path(f"/proc/{pid}").exists()  # the coordinator has no process of a worker


def _check_results(work: Workspace) -> list[str]:
    found = read_items(work.folder / "results" / "people.jsonl")
    if found != read_items(EXPECTED):
        raise Failure(f"{len(found)} items, and they are not those of {EXPECTED.name}")
    return [f"{len(found)} records passed three stages, each once, though a copy was killed"]


def _check_monitoring(work: Workspace, at_work: list[dict[str, Any]]) -> list[str]:
    """Check what the report's team had to query by SQL: who holds what, and stale claims."""
    held = work.read("stale")
    unfinished = work.read("records", "newest", "--state", "leased")
    if held or unfinished:
        raise Failure(f"Leases are left: {held} {unfinished}")
    # Of the copy that wrote most: on a busy machine the other may join too late for any task.
    logs = [(work.folder / f"links-{number}.log").read_text() for number in range(COPIES["links"])]
    logged = [json.loads(line) for line in max(logs, key=len).splitlines()]
    if not any(line.get("step") == "links" for line in logged):
        raise Failure("The log of a copy has no line for its tasks")
    return [
        f"{len(at_work)} processes were listed, the coordinator among them; no stale claim is left",
        f"{len(logged)} lines of JSON in the log of one copy",
    ]


def _check_tokens(report: dict[str, Any]) -> list[str]:
    used = report["accepted"]
    if report["refused"] or len(used) < len(TOKENS):
        raise Failure(f"{report['refused']} requests over the limit; tokens used: {used}")
    return [f"{sum(used.values())} requests by {len(used)} tokens, none over its limit"]


def _headline(seconds: float) -> list[str]:
    rate, bound = PEOPLE / seconds * HOUR, len(TOKENS) * LIMIT / WINDOW * HOUR
    return [
        f"{PEOPLE} profiles in {seconds:.0f} s are {rate:,.0f} an hour; the tokens allow {bound:,.0f}",
        "the report: 50 to 100 an hour by one instance, 500 to 800 by ten, for want of tokens",
    ]


if __name__ == "__main__":
    sys.exit(main("profiles", show))

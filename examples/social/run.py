"""Runs the example: three machines, one lost, the coordinator and its script restarted, calls on demand."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from examples.common.control_room import ControlRoom
from examples.common.items import read_items
from examples.common.patience import PATIENCE, POLL, Failure
from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import Workspace, kill, on_machine
from examples.social.on_demand import CALLS
from examples.social.site import USERS

FOLDER = Path(__file__).parent
MACHINES = ("alpha", "beta", "gamma")
GONE, TOP = 3, 20
LISTENERS = "ondemand_social"  # the run of those that listen
HOUR = 3_600


def show(folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    with (
        SiteOfExample("social") as site,
        Workspace("social", folder, queue, site.names) as work,
        ControlRoom(work, machine="alpha") as room,
    ):
        work.test()
        began = time.monotonic()
        # Nothing is served before both machines are at work: else one of them might do it all.
        site.hold_after(0)
        for machine in ("beta", "gamma"):
            work.start(f"worker-{machine}", "start", "--role", "worker", machine=machine)
        _start_coordinator(work, "coordinator-1")
        for machine in ("beta", "gamma"):
            work.wait_for_line(f"worker-{machine}.err", "of social\n")
        site.go()
        site.wait_for_pages(USERS // 10)
        machines = _look_at_machines(room)
        # A machine and the coordinator lose power. The coordinator is started again, and that is all.
        kill(work.started["worker-gamma"])
        kill(work.started["coordinator-1"])
        code = _start_coordinator(work, "coordinator-2").wait(PATIENCE)
        seconds = time.monotonic() - began
        lines = [machines, *_check_profiles(work, code), _check_script(work)]
        lines += [*_check_calls(work, room), *_check_dashboard(room)]
    rate = USERS / seconds * HOUR
    return [
        *lines,
        f"{USERS} tasks in {seconds:.0f} s are {rate:,.0f} an hour; the API allows the cluster 10 requests/s",
        "the report: five workers and a coordinator that forgets what it waits for when it is restarted",
    ]


def _start_coordinator(work: Workspace, name: str) -> Any:
    return work.start(name, "start", "--role", "coordinator", machine="alpha")


def _look_at_machines(room: ControlRoom) -> str:
    """Wait until all machines are at work; the run is paused meanwhile, so that work is left after it."""
    if not on_machine("alpha"):
        return "machines at work: this one (no right to name others here)"
    (run,) = room.call("runs")["rows"]
    room.call(f"runs/{run['run_id']}/pause", {})
    give_up = time.monotonic() + PATIENCE
    while (names := {_machine_of(one) for one in room.call("workers")["rows"]}) != set(MACHINES):
        if time.monotonic() > give_up:
            raise Failure(f"The machines at work: {sorted(names)}")
        time.sleep(POLL)
    room.call(f"runs/{run['run_id']}/resume", {})
    return f"machines at work: {', '.join(MACHINES)}"


def _machine_of(worker: dict[str, Any]) -> str:
    return str(worker["worker_id"]).rsplit("-", 2)[0]


def _check_profiles(work: Workspace, code: int) -> list[str]:
    found, wanted = (
        read_items(work.folder / "results" / "profiles.jsonl"),
        read_items(FOLDER / "expected.jsonl"),
    )
    dead = work.read("dead", "list", "newest")
    if len(dead) != GONE or not all(one["error"].startswith("UserGone") for one in dead):
        raise Failure(f"The dead letters: {dead}")
    if code != 3 or found != wanted:
        raise Failure(f"The coordinator ended with {code}, and {len(found)} profiles; {len(wanted)} expected")
    return [
        f"{len(found)} profiles, each once, though a machine and the coordinator were killed",
        f"{len(dead)} accounts that are gone are dead letters, after one attempt",
    ]


def _check_script(work: Workspace) -> str:
    """Let the script fan out and gather, kill it in the middle, and start it again."""
    first = work.start("script-1", program=("fan_out.py",))
    work.wait_for_line("script-1.log", f"1 of {TOP}")
    kill(first)
    if work.start("script-2", program=("fan_out.py",)).wait(timeout=PATIENCE):
        raise Failure(f"The script failed:\n{(work.folder / 'script-2.err').read_text()}")
    told = (work.folder / "script-2.log").read_text()
    gathered = (work.folder / "gathered.json").read_text()
    if gathered != (FOLDER / "expected.json").read_text() or f"0 tasks queued, {TOP} were known" not in told:
        raise Failure(f"The script gathered something else:\n{told}")
    return f"the script gathered the followers of {TOP} users; killed and started again, it queued none twice"


def _check_calls(work: Workspace, room: ControlRoom) -> list[str]:
    """Call workers that listen on the three machines: from the command line, and by each strategy."""
    for machine in MACHINES:
        work.start(f"listen-{machine}", "listen", "social", "--workers", "1", machine=machine)
    give_up = time.monotonic() + PATIENCE
    while len(_listening(room)) < len(MACHINES):
        if time.monotonic() > give_up:
            raise Failure("The workers do not listen")
        time.sleep(POLL)
    payload = json.dumps({"username": "gita_paints_0"})
    (item,) = map(
        json.loads, work.shoal("scrape", "social", "--payload", payload, "--step", "profile").split("\n")[:1]
    )
    if item["followers"] != 91:
        raise Failure(f"The call returned {item}")
    calls = work.start("calls", program=("on_demand.py",))
    if calls.wait(timeout=PATIENCE):
        raise Failure(f"The calls failed:\n{(work.folder / 'calls.err').read_text()}")
    told = (work.folder / "calls.log").read_text().splitlines()
    shares = {line.split()[0]: [int(one.partition("=")[2]) for one in line.split()[1:]] for line in told}
    if any(sum(share) != CALLS for share in shares.values()) or len(shares) != 3:
        raise Failure(f"The calls by strategy: {told}")
    if on_machine("alpha") and shares["round_robin"] != [CALLS // 3] * 3:
        raise Failure(f"Round robin is not even: {told}")
    return [f"on demand, {CALLS} calls each: {'; '.join(told)}"]


def _listening(room: ControlRoom) -> list[dict[str, Any]]:
    rows = room.call("workers")["rows"]
    return [one for one in rows if one["run_id"] == LISTENERS and one["state"] == "running"]


def _check_dashboard(room: ControlRoom) -> list[str]:
    stats, workers = room.call("stats"), room.call("workers")["rows"]
    call = {"scraper": "social", "step": "followers", "payload": {"username": "gita_paints_0", "limit": 3}}
    answer = room.call("scrape", call)
    if len(answer["items"][0]["followers"]) != 3 or stats["tasks"]["completed"] < USERS - GONE:
        raise Failure(f"The server answers {answer}, {stats}")
    seen = Counter(_machine_of(one) for one in workers)
    return [f"the dashboard lists workers of {len(seen)} machines; POST /api/scrape returned 3 followers"]


if __name__ == "__main__":
    sys.exit(main("social", show, fleet="redis"))

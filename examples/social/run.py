"""Runs the example: three machines, one lost, the coordinator and its script restarted, calls on demand."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import POLL, Failure, Workspace, kill, on_machine
from examples.social.on_demand import CALLS
from examples.social.site import USERS
from shoal.core.urls import host_of
from tests.servers.process import free_port

FOLDER = Path(__file__).parent
MACHINES = ("alpha", "beta", "gamma")
GONE, TOP = 3, 20
TOKEN = "the-token-of-the-social-example"
PATIENCE = 100
HOUR = 3_600


def show(folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    token = {"SHOAL_WEB_TOKEN": TOKEN}
    with SiteOfExample("social") as site, Workspace("social", folder, queue, site.names, **token) as work:
        work.test()
        began = time.monotonic()
        for machine in ("beta", "gamma"):
            work.start(f"worker-{machine}", "start", "--role", "worker", machine=machine)
        _start_coordinator(work, "coordinator-1")
        work.wait_for("the first profiles", lambda status: status["completed"] >= USERS // 10)
        machines = _machines(work)
        # A machine and the coordinator lose power. The coordinator is started again, and that is all.
        kill(work.started["worker-gamma"])
        kill(work.started["coordinator-1"])
        code = _start_coordinator(work, "coordinator-2").wait(timeout=PATIENCE)
        seconds = time.monotonic() - began
        lines = [machines, *_check_profiles(work, code), _check_script(work)]
        lines += [*_check_calls(work), *_check_dashboard(work)]
    rate = USERS / seconds * HOUR
    return [
        *lines,
        f"{USERS} tasks in {seconds:.0f} s are {rate:,.0f} an hour; the API allows the cluster 10 requests/s",
        "the report: five workers and a coordinator that forgets what it waits for when it is restarted",
    ]


def _start_coordinator(work: Workspace, name: str) -> Any:
    return work.start(name, "start", "--role", "coordinator", machine="alpha")


def _machines(work: Workspace) -> str:
    names = {_machine_of(one) for one in work.read("workers", "--run", "newest")}
    if on_machine("alpha") and names != set(MACHINES):
        raise Failure(f"The machines at work: {sorted(names)}")
    shown = ", ".join(sorted(names))
    return f"machines at work: {shown}" + ("" if len(names) > 1 else " (no right to name others here)")


def _machine_of(worker: dict[str, Any]) -> str:
    return str(worker["worker_id"]).rsplit("-", 2)[0]


def _check_profiles(work: Workspace, code: int) -> list[str]:
    found, wanted = _lines(work.folder / "results" / "profiles.jsonl"), _lines(FOLDER / "expected.jsonl")
    if code != 3 or found != wanted:
        raise Failure(f"The coordinator ended with {code}, and {len(found)} profiles; {len(wanted)} expected")
    dead = work.read("dead", "list", "newest")
    if len(dead) != GONE or not all(one["error"].startswith("UserGone") for one in dead):
        raise Failure(f"The dead letters: {dead}")
    return [
        f"{len(found)} profiles, each once, though a machine and the coordinator were killed",
        f"{len(dead)} accounts that are gone are dead letters, after one attempt",
    ]


def _lines(file: Path) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in file.read_text().splitlines())


def _check_script(work: Workspace) -> str:
    """Let the script fan out and gather, kill it in the middle, and start it again."""
    first = work.start("script-1", program=("fan_out.py",))
    _wait_for_line(work.folder / "script-1.log", "1 of 20")
    kill(first)
    if work.start("script-2", program=("fan_out.py",)).wait(timeout=PATIENCE):
        raise Failure(f"The script failed:\n{(work.folder / 'script-2.err').read_text()}")
    told = (work.folder / "script-2.log").read_text()
    gathered = (work.folder / "gathered.json").read_text()
    if gathered != (FOLDER / "expected.json").read_text() or f"0 tasks queued, {TOP} were known" not in told:
        raise Failure(f"The script gathered something else:\n{told}")
    return f"the script gathered the followers of {TOP} users; killed and started again, it queued none twice"


def _wait_for_line(file: Path, text: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        if text in file.read_text():
            return
        time.sleep(0.02)
    raise Failure(f"{file.name} does not say {text!r}:\n{file.with_suffix('.err').read_text()}")


def _check_calls(work: Workspace) -> list[str]:
    """Call workers that listen on the three machines: from the command line, and by each strategy."""
    for machine in MACHINES:
        work.start(f"listen-{machine}", "listen", "social", "--workers", "1", machine=machine)
    give_up = time.monotonic() + PATIENCE
    while sum(one["state"] == "running" for one in _listening(work)) < len(MACHINES):
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


def _listening(work: Workspace) -> list[dict[str, Any]]:
    try:
        return work.read("workers", "--run", "ondemand_social")
    except Failure:  # no run yet
        return []


def _check_dashboard(work: Workspace) -> list[str]:
    port = free_port()
    work.start("serve", "serve", "--port", str(port), machine="alpha")
    address = f"http://127.0.0.1:{port}"
    give_up = time.monotonic() + PATIENCE
    while not _is_up(address):
        if time.monotonic() > give_up:
            raise Failure(f"The server at {host_of(address)} does not start")
        time.sleep(POLL)
    stats, workers = _call(f"{address}/api/stats"), _call(f"{address}/api/workers")["rows"]
    call = {"scraper": "social", "step": "followers", "payload": {"username": "gita_paints_0", "limit": 3}}
    answer = _call(f"{address}/api/scrape", call)
    if len(answer["items"][0]["followers"]) != 3 or stats["tasks"]["completed"] < USERS - GONE:
        raise Failure(f"The server answers {answer}, {stats}")
    seen = Counter(_machine_of(one) for one in workers)
    return [f"the dashboard lists workers of {len(seen)} machines; POST /api/scrape returned 3 followers"]


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5):
            return True
    except OSError:
        return False


def _call(url: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url}: {error.code} {error.read().decode()}") from error


if __name__ == "__main__":
    sys.exit(main("social", show, fleet="redis"))

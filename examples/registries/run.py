"""Runs the example: six registries, started in every way, two of them through Tor, one killed and resumed."""

import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from examples.common.control_room import TOKEN, ControlRoom
from examples.common.items import read_items, sort_items
from examples.common.patience import PATIENCE, Failure
from examples.common.show import main
from examples.common.site import SiteOfExample
from examples.common.workspace import Workspace, kill
from examples.registries.medicines import is_gone, medicine
from shoal.core.errors import BrowserMissing
from shoal.core.values import counted
from shoal.fetch.browser.process import find_chromium
from tests.servers.process import ServerFailed, ServerMissing
from tests.servers.tor import TorNetwork

EXPECTED = Path(__file__).parent / "expected"
# Pages of India, of which the report's team had a million: a few in a file, more on servers.
URLS = os.environ.get("URLS")
FEW, MANY = 3_000, 10_000
MOST_WORKERS = 3
BUSY = 4  # the exit code of a start that is refused
AT_KILL = 25  # pages of Argentina before it is killed
MILLION = 1_000_000
SLOWEST = 100  # pages a second, on a machine that does much else
MINUTE, HOUR = 60, 3_600
TOR_EXITS = 2  # with the authority just enough for circuits of three


class PrivateTor:
    """A Tor network on this machine, which starts while other things happen."""

    def __init__(self) -> None:
        self.missing, self._torrc = "", ""
        self._is_ready, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def begin(self) -> None:
        """Begin to start it, if nobody has."""
        if self._thread.ident is None:
            self._thread.start()

    def options(self) -> list[str]:
        """Wait until it is there; return the options by which a run belongs to it, or does without Tor."""
        self.begin()
        self._is_ready.wait()
        return ["--tor", f"torrc={self._torrc}" if self._torrc else "off"]

    def close(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        # In one thread from beginning to end: its processes end with the thread that has started them.
        try:
            with TorNetwork(TOR_EXITS) as network:
                self._torrc = str(network.torrc)
                self._is_ready.set()
                self._is_over.wait()
        except (ServerMissing, ServerFailed) as error:
            self.missing = str(error)
        finally:
            self._is_ready.set()


def show(tor: PrivateTor, folder: Path, queue: str) -> list[str]:
    """Run it on a queue; raises Failure if something is not as expected."""
    with SiteOfExample("registries") as site, Workspace("registries", folder, queue, site.names) as work:
        work.test()
        is_file = queue.startswith("sqlite")
        # The network costs time as long as it is there: last with the first queue, first with the second.
        browsers = [] if is_file else _show_browsers(work, tor)
        if not is_file:
            tor.close()
        lines = [*_show_argentina(work, site), *_show_canada(work), *_show_netherlands(work)]
        if is_file:
            tor.begin()
        headline = _show_india(work, int(URLS) if URLS else FEW if is_file else MANY)
        lines += browsers or _show_browsers(work, tor)
    twice = site.report["twice"]["AR"]
    lines.insert(1, f"Argentina: {twice} of 240 pages were fetched again after the kill")
    return [*lines, *headline]


def _show_argentina(work: Workspace, site: SiteOfExample) -> list[str]:
    """Show single mode: a second start is refused, and a killed run goes on where it was."""
    words = ("run", "argentina", "--out", "argentina.jsonl")
    site.hold_after(AT_KILL)
    first = work.start("first", *words)
    site.wait_for_pages(AT_KILL)
    work.shoal("run", "argentina", exits=(BUSY,))
    (status,) = work.read("status", "newest")
    if first.poll() is not None:
        raise Failure(f"The first start has ended, with {first.returncode}")
    kill(first)
    site.go()
    work.shoal(*words, "--resume", "newest", "--set", "rate=100/s")
    _compare("argentina", work.folder / "argentina.jsonl")
    return [
        f"Argentina: a second start was refused; killed after {status['items']} of 240 items, then resumed"
    ]


def _show_canada(work: Workspace) -> list[str]:
    """Show that command line, API and pages start the same."""
    work.shoal("run", "canada", "--out", "cli.jsonl")
    with ControlRoom(work) as room:
        started = room.call("runs", {"scraper": "canada", "workers": 1})["run_id"]
        room.wait_for_end(started)
        (work.folder / "api.jsonl").write_text(room.read(f"api/runs/{started}/export?format=jsonl"))
        room.submit("/login", token=TOKEN)
        _, fields = room.submit("/start", scraper="canada", workers="1")
        page, _ = room.submit("/start/run", **fields)
        started = page.rpartition("/")[2].partition("?")[0]
        room.wait_for_end(started)
        (work.folder / "pages.jsonl").write_text(room.read(f"api/runs/{started}/export?format=jsonl"))
        depth = [line for line in room.read("metrics").splitlines() if line.startswith("shoal_queue_tasks")]
    for way in ("cli", "api", "pages"):
        _compare("canada", work.folder / f"{way}.jsonl")
    if not depth:
        raise Failure("The metrics have no depth of the queue")
    return ["Canada: 120 items from the command line, the API and the control room alike"]


def _show_netherlands(work: Workspace) -> list[str]:
    """Show a start from Python."""
    done = subprocess.run(
        [sys.executable, "start.py", "netherlands"],
        cwd=work.folder,
        env=work.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    (work.folder / "netherlands.jsonl").write_text(done.stdout)
    if done.returncode:
        raise Failure(f"start.py ended with {done.returncode}: {done.stderr}")
    _compare("netherlands", work.folder / "netherlands.jsonl")
    return ["Netherlands: 84 items by app.start"]


def _show_india(work: Workspace, urls: int) -> list[str]:
    """Show distributed mode: a file of URLs, and as many workers as its depth needs."""
    subprocess.run([sys.executable, "make_urls.py", str(urls)], cwd=work.folder, check=True)
    (queued,) = work.read("run", "india")
    counts = queued["enqueued"], queued["duplicate"], queued["invalid"]
    if queued["status"] != "queued" or counts != (urls, urls // 100, 2):
        raise Failure(f"The file of URLs became {queued}")
    began = time.monotonic()
    words = ("scale", queued["run_id"], "india", "--max", str(MOST_WORKERS), "--tasks-per-worker", "1000")
    patience = PATIENCE + urls / SLOWEST
    decided = work.read(*words, "--cooldown", "1s", "--until-drained", timeout=patience)
    seconds = time.monotonic() - began
    most = max(one["target"] for one in decided)
    if most != min(MOST_WORKERS, -(-urls // 1_000)) or decided[-1]["target"]:
        raise Failure(f"The autoscaler decided {[one['target'] for one in decided]}")
    work.shoal("export", queued["run_id"], "--to", "india.jsonl")
    kept = [number for number in range(1, urls + 1) if not is_gone(number)]
    if read_items(work.folder / "india.jsonl") != sort_items(medicine("IN", number) for number in kept):
        raise Failure("The items of India are not those of its registry")
    dead = work.read("dead", "list", queued["run_id"], "--limit", "1000")
    if len(dead) != urls - len(kept) or any("404" not in one["error"] for one in dead):
        raise Failure(f"{len(dead)} dead letters: {dead[:3]}")
    rate = urls / seconds
    hours = MILLION / rate / HOUR
    return [
        f"India: {urls:,} URLs from a file, without {counts[1]} duplicates and 2 invalid lines",
        f"India: {len(kept):,} items, {counted(len(dead), 'dead letter')}; {most} workers, then none",
        f"{rate * MINUTE:,.0f} URLs a minute by {most} workers, a million in {hours:.1f} hours",
        "the report: 10 URLs a minute by one worker, 500 by fifty, a million in 33 hours",
    ]


def _show_browsers(work: Workspace, tor: PrivateTor) -> list[str]:
    """Show two registries that need a browser, through Tor: one process, and two workers."""
    try:
        find_chromium()
    except BrowserMissing as error:
        return [f"Russia and Malaysia: skipped. {error}"]
    words = tor.options()
    russia = work.start("russia", "run", "russia", "--out", "russia.jsonl", *words)
    (done,) = work.read("run", "malaysia", "--workers", "2", "--out", "malaysia.jsonl", *words)
    found = [] if tor.missing else work.read("tor", done["run_id"])
    if russia.wait(PATIENCE):
        raise Failure(f"Russia ended with {russia.returncode}")
    for country in ("russia", "malaysia"):
        _compare(country, work.folder / f"{country}.jsonl")
    if tor.missing:
        return [f"Russia and Malaysia: 36 and 20 items by browsers, without Tor. {tor.missing}"]
    if len(found) != 2:
        raise Failure(f"Two workers had these Tors: {found}")
    return ["Russia and Malaysia: 36 and 20 items by browsers through Tor, each worker with its own of both"]


def _compare(country: str, file: Path) -> None:
    found = read_items(file)
    if found != read_items(EXPECTED / f"{country}.jsonl"):
        raise Failure(f"{len(found)} items, and they are not those of expected/{country}.jsonl")


def run() -> int:
    tor = PrivateTor()
    try:
        return main("registries", partial(show, tor))
    finally:
        tor.close()


if __name__ == "__main__":
    sys.exit(run())

"""Peers are counted job by job, run by their own commands, and compared round by round."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.peers import commands, foreign, home
from tools.bench.peers.entrant import Foreigner, Heat
from tools.bench.peers.entrants import RABBITMQ, REDIS, entrants
from tools.bench.peers.order import Order
from tools.bench.peers.race import Record, ratios
from tools.bench.peers.tally import read_counts

PEERS = [one for one in (*REDIS, *RABBITMQ) if isinstance(one, Foreigner)]
PYTHON = Path(sys.executable)
COUNT = """
import os, sys
from pathlib import Path
from tools.bench.peers.tally import Tally
count = Tally(Path(sys.argv[1]), 3)
for _ in range(3):
    if os.fork() == 0:
        count(); count()
        os._exit(0)
for _ in range(3):
    os.wait()
"""
JOBS = """
import sys, time
from tools.bench.peers.order import order
count = order().tally()
for _ in range(int(sys.argv[1])):
    count()
print("this is all I do", flush=True)
time.sleep(float(sys.argv[2]))
"""


def an_order(folder="", **changes):
    facts = {
        "peer": "celery",
        "address": "redis://127.0.0.1:1/2",
        "queue": "bench-1",
        "folder": str(folder),
        "jobs": 100,
        "workers": 1,
        "choice": {"pool": "prefork", "prefetch": 100},
    }
    return Order(**{**facts, **changes})


def test_a_process_counts_for_itself_after_a_fork(tmp_path):
    subprocess.run([PYTHON, "-c", COUNT, tmp_path], check=True, timeout=30)
    assert [count.jobs for count in read_counts(tmp_path)] == [2, 2, 2]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_has_jobs_a_command_and_pins_without_addresses(peer):
    assert (home.ROOT / "tools/bench/peers" / f"{peer.module}_jobs.py").exists()
    pins = (home.PINS / f"{peer.home}.txt").read_text()
    assert all("==" in line for line in pins.splitlines()) and "://" not in pins
    for choice in peer.choices:
        lines = commands.commands(an_order(peer=peer.module, choice=choice, workers=2))
        assert all(f"tools.bench.peers.{peer.module}_jobs" in " ".join(line) for line in lines)


@pytest.mark.parametrize("store", ["postgres", "redis", "rabbitmq"])
def test_shoal_is_measured_first_and_nobody_twice(store):
    names = [entrant.name for entrant in entrants(store)]
    assert names[0] == "shoal" and len(set(names)) == len(names)


@pytest.fixture
def peer(monkeypatch, tmp_path):
    """Make a peer that does so many of 100 jobs and stays for so many seconds."""

    def made(done, stays):
        line = ("-c", JOBS, str(done), str(stays))
        monkeypatch.setitem(commands.COMMANDS, "odd", lambda order: [line] * order.workers)
        return an_order(tmp_path, peer="odd")

    return made


async def test_a_peer_is_ended_as_soon_as_its_jobs_are_done(peer):
    given = peer(100, 600)
    work = await foreign.work(PYTHON, given)
    assert work.jobs == 100 and 0 <= work.seconds < 5
    (pid,) = (int(path.name) for path in Path(given.folder).iterdir())
    assert not Path(f"/proc/{pid}").exists()


async def test_a_peer_that_ends_too_early_or_does_too_much_is_found_out(peer):
    with pytest.raises(foreign.PeerFailed, match=r"odd stopped after 60 of 100 jobs: this is all I do"):
        await foreign.work(PYTHON, peer(60, 0))
    with pytest.raises(AssertionError, match="odd did 101 of 100 jobs"):
        Foreigner("odd", "odd", 1).check(101, 100)


def a_record(name, *heats):
    made = [Heat(rate, enqueue=rate / 2, client=1 / rate, server=1 / rate) for rate in heats]
    return Record(Foreigner(name, name, 1, bar=REDIS[1].bar), {}, 2, 1, made)


def test_ratios_are_taken_round_by_round():
    # The second round was slow for everybody: the best of each would say 2, the middle of each 0.9.
    ours, peer = a_record("shoal", 400, 40, 90), a_record("huey", 100, 10, 200)
    rate, cpu, enqueue = ratios(ours, peer)
    assert (rate.scenario, rate.value, rate.verdict) == ("shoal : huey, 2 workers", 4, "met")
    assert (cpu.value, enqueue.value) == (pytest.approx(4), 4)
    assert rate.detail["rounds"] == [4, 4, 0.45]

"""Peers are counted job by job, run by their own commands, and compared round by round."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.bench.peers import commands, foreign, home, tally
from tools.bench.peers.entrant import Foreigner, Heat
from tools.bench.peers.entrants import POSTGRES, RABBITMQ, REDIS, entrants
from tools.bench.peers.order import VARIABLE, Order, order
from tools.bench.peers.race import Record, ratios
from tools.bench.peers.tally import Tally, read_counts
from tools.bench.processes import cpu_of_family, cpu_of_sessions, memory_of

PEERS = [one for one in (*REDIS, *RABBITMQ) if isinstance(one, Foreigner)]
PYTHON = Path(sys.executable)


def an_order(folder="", **changes):
    facts = {
        "peer": "celery",
        "address": "redis://127.0.0.1:1/2",
        "queue": "bench-1",
        "folder": str(folder),
        "jobs": 5,
        "workers": 1,
        "choice": {"pool": "prefork", "prefetch": 100},
    }
    return Order(**{**facts, **changes})


# Counting


def test_jobs_of_many_threads_are_all_counted(tmp_path):
    count = Tally(tmp_path, 1)
    threads = [threading.Thread(target=lambda: [count() for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (found,) = read_counts(tmp_path)
    assert found.jobs == 4_000
    assert 0 < found.began <= found.ended <= time.monotonic()


COUNT = """
import os, sys
from pathlib import Path
from tools.bench.peers.tally import Tally
count = Tally(Path(sys.argv[1]), int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    if os.fork() == 0:
        count(); count()
        os._exit(0)
for _ in range(int(sys.argv[3])):
    os.wait()
"""


def test_a_process_counts_for_itself_after_a_fork_and_the_first_waits_for_the_others(tmp_path):
    subprocess.run([PYTHON, "-c", COUNT, tmp_path, "3", "3"], check=True, timeout=30)
    counts = read_counts(tmp_path)
    assert [count.jobs for count in counts] == [2, 2, 2]
    assert (
        max(count.began for count in counts) - min(count.began for count in counts) < tally.LONGEST_WAIT / 2
    )


def test_the_first_goes_on_alone_when_nobody_else_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(tally, "LONGEST_WAIT", 0.05)
    Tally(tmp_path, 2)()
    assert [count.jobs for count in read_counts(tmp_path)] == [1]


def test_a_process_that_has_not_begun_is_not_counted(tmp_path):
    (tmp_path / "1").write_bytes(bytes(24))
    (tmp_path / "2").write_bytes(b"")
    assert read_counts(tmp_path) == []


# Orders and commands


def test_an_order_arrives_as_it_was_given(monkeypatch, tmp_path):
    given = an_order(tmp_path, jobs=7, address="amqp://guest@127.0.0.1:1/")
    monkeypatch.setenv(VARIABLE, given.environment()[VARIABLE])
    assert order() == given
    assert not order().on_redis


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_has_jobs_a_command_and_pins(peer):
    assert (home.ROOT / "tools/bench/peers" / f"{peer.module}_jobs.py").exists()
    assert (home.PINS / f"{peer.home}.txt").exists()
    for choice in peer.choices:
        lines = commands.commands(an_order(peer=peer.module, choice=choice, workers=2))
        assert all(f"tools.bench.peers.{peer.module}_jobs" in " ".join(line) for line in lines)


@pytest.mark.parametrize(
    ("peer", "choice", "started"),
    [
        ("celery", {"pool": "prefork"}, 1),
        ("celery", {"pool": "solo"}, 2),
        ("arq", {}, 2),
        ("huey", {}, 1),
    ],
    ids=["celery", "celery-solo", "arq", "huey"],
)
def test_two_workers_are_two_processes_that_do_jobs(peer, choice, started):
    lines = commands.commands(an_order(peer=peer, workers=2, choice=choice))
    assert len(lines) == started
    assert peer == "arq" or all(str(2 // started) in line for line in lines)


@pytest.mark.parametrize("name", ["bench-queue", "bench-queue-arq"])
def test_pins_hold_versions_and_no_addresses(name):
    lines = (home.PINS / f"{name}.txt").read_text().splitlines()
    assert lines
    assert all("==" in line for line in lines)
    assert not [line for line in lines if "://" in line or "@" in line or line.startswith("-")]


def test_versions_come_from_the_pins():
    assert set(home.versions("bench-queue")) >= {"celery", "dramatiq", "taskiq", "huey"}
    assert set(home.versions("bench-queue-arq")) == {"arq", "redis"}


# The peers' home


@pytest.fixture
def new_home(tmp_path, monkeypatch):
    """Homes in a folder of the test's own; yields how often one was furnished."""
    installs = []
    monkeypatch.setattr(home, "HOMES", tmp_path / "homes")
    monkeypatch.setattr(home, "PINS", tmp_path)
    monkeypatch.setattr(home.venv, "create", lambda folder, **_: folder.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(home, "_install", lambda python, pins: installs.append(pins.read_text()))
    (tmp_path / "some.txt").write_text("a==1\n")
    home.python_of.cache_clear()
    yield installs
    home.python_of.cache_clear()


def test_an_environment_is_made_once_and_again_when_its_pins_change(new_home, tmp_path):
    for pins in ("a==1\n", "a==1\n", "a==2\n"):
        (tmp_path / "some.txt").write_text(pins)
        home.python_of.cache_clear()
        assert home.python_of("some") == tmp_path / "homes" / "some" / "bin" / "python"
    assert new_home == ["a==1\n", "a==2\n"]


def test_an_environment_that_could_not_be_installed_says_how_to_do_without(tmp_path):
    with pytest.raises(home.PeersMissing, match=r"some\.txt .* --only postgres,sqlite,redis,rabbitmq"):
        home._install(Path("/bin/false"), tmp_path / "some.txt")


# Watching them work


JOBS = """
import sys, time
from tools.bench.peers.order import order
count = order().tally()
for _ in range(int(sys.argv[1])):
    count()
print("this is all I do", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def peer(monkeypatch, tmp_path):
    """Make a peer that does so many jobs and stays for so many seconds."""

    def made(done, stays):
        line = ("-c", JOBS, str(done), str(stays))
        monkeypatch.setitem(commands.COMMANDS, "odd", lambda order: [line] * order.workers)
        return an_order(tmp_path, peer="odd", jobs=100)

    return made


async def test_a_peer_is_ended_as_soon_as_its_jobs_are_done(peer):
    given = peer(100, 600)
    work = await foreign.work(PYTHON, given)
    assert work.jobs == 100
    assert 0 <= work.seconds < 5
    (pid,) = (int(path.name) for path in Path(given.folder).iterdir())
    assert not Path(f"/proc/{pid}").exists()


async def test_a_job_that_is_done_twice_shows(peer):
    work = await foreign.work(PYTHON, peer(101, 600))
    with pytest.raises(AssertionError, match="odd did 101 of 100 jobs"):
        Foreigner("odd", "odd", 1).check(work.jobs, 100)


async def test_a_peer_that_ends_too_early_is_quoted(peer):
    with pytest.raises(foreign.PeerFailed, match=r"odd stopped after 60 of 100 jobs: this is all I do"):
        await foreign.work(PYTHON, peer(60, 0))


async def test_a_peer_that_hangs_is_given_up(peer, monkeypatch):
    monkeypatch.setattr(foreign, "PATIENCE", 2)
    with pytest.raises(foreign.PeerFailed, match="odd stopped after 60 of 100 jobs"):
        await foreign.work(PYTHON, peer(60, 600))


async def test_a_peer_that_cannot_be_filled_is_quoted(tmp_path):
    with pytest.raises(foreign.PeerFailed, match=r"(?s)odd could not be given its jobs: .*odd_jobs"):
        await foreign.fill(PYTHON, an_order(tmp_path, peer="odd"))


def test_processor_time_and_memory_are_seen_from_outside():
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert cpu_of_family(os.getpid()) > 0.05
    assert cpu_of_sessions([os.getsid(0)]) > 0.05
    assert memory_of("self", "VmHWM") >= memory_of(os.getpid()) > 1_000_000


# Comparing


def a_record(name, *heats):
    made = [Heat(rate, enqueue=rate / 2, client=1 / rate, server=1 / rate) for rate in heats]
    return Record(Foreigner(name, name, 1, bar=REDIS[1].bar), {}, 2, 1, made)


def test_a_record_shows_the_heat_in_the_middle():
    rate, cpu, enqueue = a_record("huey", 10, 1000, 40).figures()
    assert (rate.scenario, rate.value) == ("huey, 2 workers", 40)
    assert (cpu.value, enqueue.value) == (pytest.approx(2e6 / 40), 20)
    assert rate.detail["rates"] == [10, 1000, 40]


def test_ratios_are_taken_round_by_round():
    # The second round was slow for everybody: the best of each would say 2, the middle of each 0.9.
    ours, peer = a_record("shoal", 400, 40, 90), a_record("huey", 100, 10, 200)
    rate, cpu, enqueue = ratios(ours, peer)
    assert (rate.scenario, rate.value, rate.verdict) == ("shoal : huey, 2 workers", 4, "met")
    assert (cpu.value, enqueue.value) == (pytest.approx(4), 4)
    assert rate.detail["rounds"] == [4, 4, 0.45]


@pytest.mark.parametrize("store", ["postgres", "redis", "rabbitmq"])
def test_we_are_measured_first_and_nobody_twice(store):
    names = [entrant.name for entrant in entrants(store)]
    assert names[0] == "shoal"
    assert len(set(names)) == len(names)


def test_everybody_is_there():
    assert {entrant.name for entrant in REDIS} == {"shoal", "celery", "dramatiq", "arq", "taskiq", "huey"}
    assert {entrant.name for entrant in RABBITMQ} == {"shoal", "celery", "dramatiq", "taskiq"}
    assert {"pgqueuer", "procrastinate"} <= {entrant.name for entrant in POSTGRES}

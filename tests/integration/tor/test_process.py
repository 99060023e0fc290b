"""The Tor processes themselves, in a network of nobody."""

import asyncio
import json
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.core.errors import InvalidSetting, TorDown
from shoal.fetch.owned_folder import sweep
from shoal.fetch.tor import program
from shoal.fetch.tor import tor as tor_module
from shoal.fetch.tor.tor import Tor, installed_tor
from shoal.fleet.status.doctor import CheckStatus, examine
from shoal.scrape.scraper import Scraper
from tests.integration.processes import start_process

SOON = 20.0  # seconds, on a machine that is busy


@pytest.fixture
async def opened(lonely_torrc):
    """Opens Tors that are closed after the test."""
    tors = []

    async def make(torrc=lonely_torrc):
        tors.append(await Tor.open(torrc))
        return tors[-1]

    yield make
    for tor in tors:
        await tor.close()


async def until(happened):
    async with asyncio.timeout(SOON):
        while not happened():
            await asyncio.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_two_at_once_have_ports_and_folders_of_their_own(opened):
    one, other = await opened(), await opened()
    await until(lambda: one.pid and other.pid)
    assert one._process.port != other._process.port
    assert one._folder.path != other._folder.path
    for tor in (one, other):
        reader, writer = await asyncio.open_connection("127.0.0.1", tor._process.port)
        writer.write(b"\x05\x01\x02")
        assert await reader.readexactly(2) == b"\x05\x02"  # it wants the name that keeps streams apart
        writer.close()


async def test_its_folder_is_ours_alone_and_goes_when_it_is_closed(lonely_torrc):
    tor = await Tor.open(lonely_torrc)
    await until(lambda: tor.pid)
    pid, place = tor.pid, tor._folder.path
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    await tor.close()
    assert not is_alive(pid) and not place.exists()


async def test_a_tor_ends_when_its_worker_is_killed_and_the_next_one_sweeps_up(lonely_torrc, opened):
    worker = await start_process(
        *(sys.executable, "-m", "tests.integration.tor.owner", str(lonely_torrc)),
        stdout=PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
    )
    said = json.loads(await worker.stdout.readline())
    assert is_alive(said["tor"]) and Path(said["folder"]).exists()
    mine = await opened()
    assert Path(said["folder"]).exists()  # for its owner is alive
    worker.kill()
    await worker.wait()
    await until(lambda: not is_alive(said["tor"]))
    sweep(tor_module.PREFIX)
    assert not Path(said["folder"]).exists() and mine._folder.path.exists()


async def test_a_tor_that_dies_is_started_again(opened):
    tor = await opened()
    await until(lambda: tor.pid)
    first = tor.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: tor.pid not in (None, first))
    assert not is_alive(first)


async def test_a_tor_that_does_not_answer_is_ended_and_started_again(opened, monkeypatch):
    tor = await opened()
    await until(lambda: tor.pid)
    first = tor.pid
    monkeypatch.setattr("shoal.fetch.tor.control.REPLY_TIMEOUT_SECONDS", 0.3)
    os.kill(first, signal.SIGSTOP)
    assert not await tor.is_working()
    monkeypatch.undo()
    await until(lambda: tor.pid not in (None, first))


async def test_while_it_is_not_up_there_is_no_proxy_and_the_wait_grows(opened):
    tor = await opened()
    with pytest.raises(TorDown, match="it is starting") as first:
        tor.proxy("a")
    await until(lambda: tor.pid)
    with pytest.raises(TorDown, match=r"it is at [0-9]+ %"):
        tor.proxy("a")
    with pytest.raises(TorDown):
        await tor.wait_until_up(timedelta(seconds=0.1))
    tor._since -= 40
    assert tor.down().after > first.value.after == timedelta(seconds=1)


async def test_lines_that_tor_refuses_are_an_error_that_says_so(lonely_torrc):
    lonely_torrc.write_text("Bridge nonsense\nUseBridges 1\n")
    with pytest.raises(InvalidSetting, match=r"tor is configured in a way that Tor rejects: .*[Bb]ridge"):
        await Tor.open(lonely_torrc)
    assert not list_folders(os.getpid())


async def test_the_operators_lines_open_no_other_port(lonely_torrc, opened):
    lonely_torrc.write_text(lonely_torrc.read_text() + "SocksPort 127.0.0.1:auto\nDNSPort 127.0.0.1:auto\n")
    tor = await opened()
    await until(lambda: tor.pid)
    assert len((await tor._process.send_command("GETINFO net/listeners/socks"))[0].split()) == 1
    assert (await tor._process.send_command("GETINFO net/listeners/dns"))[0] == "net/listeners/dns="
    assert (await tor._process.send_command("GETINFO net/listeners/control"))[0].count("unix:") == 1


async def test_what_is_installed_has_a_version(lonely_torrc):
    assert (await installed_tor(lonely_torrc)).startswith("version 0.")


async def test_the_doctor_looks_at_tor_for_a_scraper_that_goes_by_it(lonely_torrc, tmp_path):
    async def found(**settings):
        scraper = Scraper("shop", **settings)
        scraper.step(lambda page: None, name="page")
        findings = examine(f"sqlite:///{tmp_path}/queue.db", scraper)
        return {finding.what: finding async for finding in findings}.get("tor")

    assert await found() is None
    good = await found(tor={"torrc": lonely_torrc})
    assert good.health is CheckStatus.GOOD and "version 0." in good.says
    lonely_torrc.write_text("Nonsense 1\n")
    bad = await found(tor={"torrc": lonely_torrc})
    assert bad.health is CheckStatus.BAD and "Nonsense" in bad.says


async def test_a_machine_without_tor_gets_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(program.shutil, "which", lambda *_, **__: None)
    with pytest.raises(InvalidSetting, match="apt-get install tor"):
        await Tor.open()


def list_folders(pid):
    """Return the folders of Tor that this process holds."""
    held = {link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists()}
    return [path for path in held if tor_module.PREFIX in str(path)]

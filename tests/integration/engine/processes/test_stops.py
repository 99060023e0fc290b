"""What a person at a terminal is told who stops a run: once, and however often they press Ctrl-C."""

import asyncio
import os
import pty
import re
import signal
import sys
import termios
from contextlib import suppress

import pytest

from shoal.cli.exits import Exit
from shoal.queue.open import open_queue
from tests.integration.engine.shell import start, typed
from tests.integration.processes import start_process

SCRAPER = """
import asyncio
from shoal import Scraper, Task

slow = Scraper("slow", retries=0)

@slow.step(fetch=None)
async def page(task: Task):
    await asyncio.sleep(60)
    yield {}
"""
TOML = """
queue = "sqlite:///shoal.db"

[scrapers.slow]
module = "slow.py:slow"
seeds = { axis = ["name:a,b,c,d"] }
"""
CTRL_C = b"\x03"
RUN = ("run", "slow.py", "--axis", "name:a,b,c,d")
COORDINATOR = ("start", "--role", "coordinator")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "slow.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML)
    return tmp_path


class Terminal:
    """A command in a terminal of its own, and what is on its screen."""

    def __init__(self, process, screen):
        self._process, self._screen, self._written = process, screen, ""
        asyncio.get_running_loop().add_reader(screen, self._read)

    def _read(self):
        try:
            self._written += os.read(self._screen, 65_536).decode(errors="replace")
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._screen)

    def hang_up(self):
        """Close the terminal: the system sends SIGHUP."""
        asyncio.get_running_loop().remove_reader(self._screen)
        os.close(self._screen)

    def send(self, number):
        """Send a signal to the command alone."""
        self._process.send_signal(number)

    @property
    def text(self):
        """What was written, without colours and moves."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._written)

    @property
    def is_up(self):
        return self._process.returncode is None

    def press(self, key):
        os.write(self._screen, key)

    async def until(self, pattern):
        async with asyncio.timeout(30):
            while not re.search(pattern, self.text):
                await asyncio.sleep(0.005)

    async def ended(self):
        code = await asyncio.wait_for(self._process.wait(), 30)
        await asyncio.sleep(0.05)  # its last words may not have been read
        return code


@pytest.fixture
async def terminal(folder):
    """Type a command into a terminal."""
    opened = []

    async def type_in(*words):
        screen, theirs = pty.openpty()
        # Else a Ctrl-C also discards what the command has written and nobody has read yet.
        modes = termios.tcgetattr(theirs)
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(theirs, termios.TCSANOW, modes)

        def take():
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first that it opens becomes its terminal

        process = await start_process(
            sys.executable,
            *("-m", "shoal", *words),
            cwd=folder,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "150"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=take,
        )
        os.close(theirs)
        opened.append((process, screen))
        return Terminal(process, screen)

    yield type_in
    for process, screen in opened:
        asyncio.get_running_loop().remove_reader(screen)
        with suppress(OSError):  # a test has closed it
            os.close(screen)
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def test_repeated_interrupts_print_once_how_to_go_on(terminal):
    here = await terminal(*RUN)
    await here.until("in progress 4")
    for words in ("Finishing 4 tasks", "Returning 4 tasks to the queue", "Stopped with 4 tasks left"):
        here.press(CTRL_C)
        await here.until(words)
    # Its last words are on the screen, and it is about to end.
    while here.is_up:
        here.press(CTRL_C)
        await asyncio.sleep(0.002)
    assert await here.ended() == Exit.PARTIAL
    assert [here.text.count(words) for words in ("Finishing", "Returning", "Resume:")] == [1, 1, 1]


async def test_a_paused_run_that_is_stopped_says_what_lets_its_workers_go_on(terminal, folder):
    here = await terminal(*RUN, "--run", "r1")
    await here.until("in progress 4")
    assert (await typed("pause", "r1", folder=folder)).code == 0
    await here.until("The run is paused. To resume it, run: shoal resume r1")
    for words in ("Finishing 4 tasks", "Stopped with 4 tasks left"):
        here.press(CTRL_C)
        await here.until(words)
    assert await here.ended() == Exit.PARTIAL
    assert "its workers wait until you run: shoal resume r1" in here.text


async def test_a_coordinator_that_is_stopped_twice_says_once_how_to_go_on(terminal):
    here = await terminal(*COORDINATOR)
    await here.until(r"Run \d+")
    while here.is_up:
        here.press(CTRL_C)
        await asyncio.sleep(0.002)
    assert await here.ended() == Exit.PARTIAL
    assert here.text.count("Resume:") == 1


async def test_stopping_a_run_while_it_is_filled_prints_how_to_go_on(folder):
    os.mkfifo(folder / "urls.txt")
    process = await start("run", "slow.py", "--urls-file", "urls.txt", folder=folder)
    async with asyncio.timeout(30):
        writer = await asyncio.to_thread(open, folder / "urls.txt", "w")
    with writer:
        writer.write("http://127.0.0.1:9/\n")
        writer.flush()
        while not (rows := (await typed("runs", "--json", folder=folder)).rows):
            await asyncio.sleep(0.05)
        (row,) = rows
        process.send_signal(signal.SIGINT)
        # A thread that reads is waited for. The end of the file must not come to it before the signal does.
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 1)
        writer.close()
        _, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == Exit.INTERRUPTED
    assert f"To continue, run the same command with --run {row['run_id']}" in err.decode()


async def test_a_closed_terminal_hands_the_tasks_back_as_a_signal_to_stop_does(terminal, folder):
    here = await terminal(*RUN)
    await here.until("in progress 4")
    here.hang_up()
    here.send(signal.SIGTERM)  # the second signal releases what the first one would finish
    assert await here.ended() == Exit.PARTIAL
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        (run,) = await queue.runs()
        stats = await queue.stats(run.id)
    assert (stats.leased, stats.remaining) == (0, 4)

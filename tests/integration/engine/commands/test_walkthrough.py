"""The walkthrough in the docs: every command is typed, and prints what is shown there."""

import asyncio
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.servers.process import free_port

WALKTHROUGH = (Path(__file__).parents[4] / "docs" / "walkthrough.md").read_text()
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.S)
SITE_PORT, SERVE_PORT = "8642", "8700"
SERVERS = ("python -m shoal.demo.site", "shoal demo --serve", "shoal serve")
TIMEOUT = 90.0


PROGRESS = re.compile(r"[\d,]+ done, [\d,]+ left, ")


def plain(line):
    """Return a line without what differs from run to run."""
    line = re.sub(r"\d{8}_\d{6}_\w{4}", "RUN", line.rstrip())
    line = re.sub(r", after \d+ pages?, \d+ items?\.$", ", after …", line)
    # The count of the one link that robots.txt forbids may die with its worker, and it is a page then.
    line = re.sub(r"^Done: 12[67] pages", "Done: 126 or 127 pages", line)
    return re.sub(r" in \d+ s\.$", " in N s.", line)


def check(printed, shown):
    """Fail unless the lines shown are printed, one after the other; `…` stands for any number of lines."""
    # A busy machine takes longer, and a run that takes longer prints its progress.
    lines = [plain(line) for line in printed.splitlines() if not PROGRESS.match(line)]
    place, may_skip = 0, True
    for line in map(plain, shown.splitlines()):
        if line == "…":
            may_skip = True
            continue
        found = next((number for number, one in enumerate(lines) if number >= place and one == line), None)
        assert found is not None and (may_skip or found == place), f"{line!r} is not in:\n{printed}"
        place, may_skip = found + 1, False


class Terminal:
    """Types commands in a folder; servers go on in the background."""

    def __init__(self, folder):
        self._folder, self._servers, self._ports = folder, [], {}

    def adapt(self, text):
        """Return a text with free ports in place of those of the docs."""
        for port in (SITE_PORT, SERVE_PORT):
            text = text.replace(port, self._ports.setdefault(port, str(free_port())))
        return text

    async def type(self, command):
        """Return what a command prints; `cd` changes the folder of the next ones."""
        if command.startswith("cd "):
            self._folder = self._folder / command.removeprefix("cd ")
            return ""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        process = await asyncio.create_subprocess_shell(
            command,
            cwd=self._folder,
            env=os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
            # The site ends when its input does.
            stdin=asyncio.subprocess.PIPE if command.startswith(SERVERS) else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        async with asyncio.timeout(TIMEOUT):
            if not command.startswith(SERVERS):
                return (await process.communicate())[0].decode()
            self._servers.append(process)
            printed = ""
            while "http://" not in printed:
                printed += (await process.stdout.readline()).decode()
            return printed

    async def close(self):
        for process in self._servers:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()


@pytest.fixture
async def terminal(tmp_path):
    terminal = Terminal(tmp_path)
    yield terminal
    await terminal.close()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_every_command_prints_what_is_shown(terminal, tmp_path):
    printed, letter, count = "", "", 0
    for language, text in BLOCK.findall(terminal.adapt(WALKTHROUGH)):
        if language == "python" and text.startswith("from"):
            (tmp_path / "shop.py").write_text(text)
        elif language == "python":
            old = re.search(r'.*"price": .*\n', (tmp_path / "shop.py").read_text())[0]
            (tmp_path / "shop.py").write_text((tmp_path / "shop.py").read_text().replace(old, text))
        elif language == "bash":  # the installation, which CI does with `make demo`
            continue
        elif language == "sh":
            printed = ""
            for command in text.splitlines():
                count += 1
                printed += await terminal.type(re.sub(r"\bID\b", letter, command))
                letter = next(iter(re.findall(r"^[0-9a-f]{32}\b", printed, re.MULTILINE)), letter)
                assert "Traceback (most recent call last)" not in printed, printed
        else:
            check(printed, text)
    assert count == 17
    assert len((tmp_path / "products.csv").read_text().splitlines()) == 120
    assert (tmp_path / "products.parquet").stat().st_size > 1_000
    assert len((tmp_path / "lamps.csv").read_text().splitlines()) == 25

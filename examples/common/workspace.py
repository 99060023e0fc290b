"""A copy of an example to run in: its own folder and queue, and the addresses of its own site."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from examples.common.patience import PATIENCE, Failure
from examples.common.site import rename

EXAMPLES = Path(__file__).parents[1]
TEXT = (".py", ".toml", ".yaml", ".txt", ".csv")
LOOK = 0.05  # seconds between two looks at a file
_tested: set[str] = set()


class Workspace:
    """Types the commands of an example, and ends whatever it has started."""

    def __init__(self, example: str, folder: Path, queue: str, names: Mapping[str, str], **more: str) -> None:
        self.folder, self._example = folder, example
        ignored = shutil.ignore_patterns("__pycache__", "deploy", "site.py", "run.py", "*.db*", "results")
        shutil.copytree(EXAMPLES / example, folder, ignore=ignored)
        for file in folder.rglob("*"):
            if file.suffix in TEXT and "tests" not in file.parts:
                file.write_text(rename(file.read_text(), names))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        # As in the deployment files: a pooler on a busy machine may keep a command waiting.
        self.environment = {**kept, "SHOAL_QUEUE": queue, "SHOAL_PATIENCE": "2m", "COLUMNS": "110", **more}
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started.values():
            kill(process)

    def test(self) -> None:
        """Run the tests of the example, which need no queue: once is enough."""
        if self._example in _tested:
            return
        # They need no plugins; to import those of this machine takes longer than the tests.
        own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = self._run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", env=own)
        if done.returncode:
            raise Failure(f"Its tests fail:\n{done.stdout}")
        _tested.add(self._example)

    def shoal(self, *words: str, exits: tuple[int, ...] = (0,), timeout: float = PATIENCE) -> str:
        """Type a command, wait for it, and return what it wrote to stdout."""
        done = self._run(sys.executable, "-m", "shoal", *words, timeout=timeout)
        if done.returncode not in exits:
            raise Failure(f"shoal {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def read(self, *words: str, timeout: float = PATIENCE) -> list[dict[str, Any]]:
        """Type a command with --json, and return its lines."""
        return [json.loads(line) for line in self.shoal(*words, "--json", timeout=timeout).splitlines()]

    def start(
        self, name: str, *words: str, program: tuple[str, ...] = ("-m", "shoal"), machine: str = ""
    ) -> subprocess.Popen[bytes]:
        """Start a command in a terminal of its own; what it writes is in the file of this name.

        `program` is another one for Python than shoal, `machine` the host name that the command sees.
        """
        paths = (self.folder / f"{name}.log", self.folder / f"{name}.err")
        with paths[0].open("wb") as log, paths[1].open("wb") as errors:
            process = subprocess.Popen(
                [*on_machine(machine), sys.executable, *program, *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
                start_new_session=True,
            )
        self.started[name] = process
        return process

    def open_terminal(self, *words: str) -> "Terminal":
        """Start a command at a terminal where a person answers its questions."""
        terminal = Terminal([sys.executable, "-m", "shoal", *words], self.folder, self.environment)
        self.started["terminal"] = terminal.process
        return terminal

    def wait_for_end(self, run: str = "newest") -> None:
        """Wait until a run has finished."""
        self.shoal("watch", run, "--every", "2", "--json", exits=(0, 3))

    def wait_for_line(self, name: str, text: str, times: int = 1) -> None:
        """Wait until a file of this folder has a text, as often as said."""
        file, give_up = self.folder / name, time.monotonic() + PATIENCE
        while not file.exists() or file.read_text().count(text) < times:
            if time.monotonic() > give_up:
                errors = file.with_suffix(".err")
                told = errors.read_text() if errors.exists() else ""
                raise Failure(f"{name} does not say {text!r} {times} times:\n{told}")
            time.sleep(LOOK)

    def _run(
        self, *words: str, timeout: float = PATIENCE, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                words,
                cwd=self.folder,
                env={**self.environment, **(env or {})},
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{' '.join(words[2:])} does not end") from error


class Terminal:
    """A command that believes that a person types; `screen` is what it has shown so far."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, start_new_session=True, **streams
        )
        os.close(theirs)
        self.screen = ""
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def expect(self, text: str) -> None:
        """Wait until the screen has shown this."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self.screen, PATIENCE):
                raise Failure(f"The terminal does not show {text!r}:\n{self.screen}")

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._ours, text.encode())

    def press_ctrl_c(self) -> None:
        """Interrupt the command as a terminal does."""
        os.kill(self.process.pid, signal.SIGINT)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 65_536)
            except OSError:  # the command has ended
                break
            with self._changed:
                self.screen += data.decode("utf-8", "replace")
                self._changed.notify_all()
            if not data:
                break


@cache
def on_machine(name: str) -> tuple[str, ...]:
    """Return what to put before a command so that its host has this name; nothing if it is not permitted."""
    if not name:
        return ()
    # Its own UTS namespace: to Shoal, which knows machines by their names, it is another machine.
    for unshare in (("unshare", "--uts"), ("unshare", "--user", "--map-root-user", "--uts")):
        command = (*unshare, "sh", "-c", f'hostname {name} && exec "$@"', "sh")
        with suppress(OSError):
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
    return ()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with all its processes, as a machine that loses power does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""What every private server needs: its binary, a port, a folder, and an end that cannot be forgotten."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from pwd import getpwnam

# Debian keeps daemons where an ordinary user's PATH does not look.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
START_TIMEOUT = 180.0  # a server that ends instead is noticed at once; one on a busy machine only needs time
STOP_TIMEOUT = 30.0
PORTS = range(15_000, 32_000)
WORKER = "PYTEST_XDIST_WORKER"  # the variable with the name of a worker of a test run, such as gw1
PROCESSES = 16  # of one test run, each with its own share of the ports
_chance = random.SystemRandom()  # the common one is seeded by Hypothesis, alike in every process
_given: deque[int] = deque(maxlen=500)  # the last ports that were given


class ServerMissing(Exception):
    """A server's program is not on this machine."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(f"{package} is not installed. Run: tools/servers.sh {package}")


class ServerFailed(Exception):
    """A server did not start, or did not stop."""


def find_program(name: str, package: str, folders: Sequence[Path] = ()) -> Path:
    """Return the program from the first folder that has it, else from PATH; raises ServerMissing."""
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    if found := shutil.which(name, path=SEARCH_PATH):
        return Path(found)
    raise ServerMissing(package)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on.

    It lies below the ports that the system gives to clients. From among those, a client that keeps
    knocking while its server is down would one day be given the server's own port, and talk to itself.

    Seconds may pass until the server binds it, so no port is given twice: not by this process, and not by
    another of the same test run.
    """
    number = int(os.environ.get(WORKER, "gw-1").removeprefix("gw"))
    share = PORTS[(number + 1) % PROCESSES :: PROCESSES]
    while True:
        port = _chance.choice(share)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.append(port)
            return port


def unprivileged_user() -> str | None:
    """Return whom a server must run as: None for ourselves, another user when we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            getpwnam(name)
        except KeyError:
            continue
        return name
    raise ServerFailed("neither the user postgres nor nobody exists, and servers refuse to run as root")


class ServerProcess:
    """One server in the foreground, with a folder of its own that goes when it goes."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        self.port = free_port()
        self.user = unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix=f"shoal-{self.name}-"))
        self.log = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        if self.user:
            shutil.chown(self.folder, self.user)
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        return self._process.pid

    def close(self) -> None:
        """Stop the server if it runs, and remove its folder."""
        atexit.unregister(self.close)
        self.resume()
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """End the server in good order; nothing happens when it is not running."""
        if self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server and its children with SIGKILL."""
        family = self._family()
        for pid in family:
            _signal(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_TIMEOUT)
        self._process = None
        wait_until(lambda: not any(map(is_alive, family)), "the killed processes to end", STOP_TIMEOUT)

    def pause(self) -> None:
        """Freeze the server and its children: connections stay open, and nobody answers."""
        # The parent first, so that it cannot make a child that escapes.
        _signal(self.pid, signal.SIGSTOP)
        for pid in self._family():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        for pid in reversed(self._family()):
            _signal(pid, signal.SIGCONT)

    def _spawn(self, command: Sequence[str | Path], is_ready: Callable[[], bool]) -> None:
        """Start the command as the unprivileged user and wait until it is ready."""
        self._begin(command)
        try:
            wait_until(lambda: self._exited() or is_ready(), f"{self.name} to start", START_TIMEOUT)
        except ServerFailed as error:
            self.kill()
            raise ServerFailed(f"{error}\n{self.log_tail()}") from None
        if self._exited():
            self._process = None
            raise ServerFailed(f"{self.name} ended at its start:\n{self.log_tail()}")

    def _begin(self, command: Sequence[str | Path]) -> None:
        """Start the command as the unprivileged user."""
        if self._process is not None:
            raise ServerFailed(f"{self.name} is already running")
        self._process = self._popen([*_end_with_parent(self.stop_signal), *command])

    def _run(self, command: Sequence[str | Path]) -> None:
        """Run one command to its end as the unprivileged user."""
        code = self._popen(command).wait(START_TIMEOUT)
        if code:
            raise ServerFailed(f"{command[0]} ended with {code}:\n{self.log_tail()}")

    def log_tail(self, lines: int = 20) -> str:
        """Return the end of the server's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _popen(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the tests, which then stop the server themselves.
                start_new_session=True,
                user=self.user,
                group=_group_of(self.user),
                extra_groups=[] if self.user else None,
            )

    def _exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _family(self) -> list[int]:
        """Return the server's pid and those of its children."""
        # Not by process group: PostgreSQL gives each child a group of its own.
        if self._process is None or self._exited():
            return []
        return [self.pid, *_children(self.pid)]


def wait_until(happened: Callable[[], bool], what: str, timeout: float, *, every: float = 0.01) -> None:
    """Return as soon as it has happened; raises ServerFailed after the timeout.

    `every` is the pause between two looks, in seconds: longer where a look starts a process.
    """
    deadline = time.monotonic() + timeout
    while not happened():
        if time.monotonic() > deadline:
            raise ServerFailed(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(every)


def _end_with_parent(how: signal.Signals) -> list[str]:
    """Have the kernel end the server when the tests are killed and cannot.

    To the kernel a parent is a thread: never start a server that others use later from a passing one.
    """
    setpriv = shutil.which("setpriv", path=SEARCH_PATH)
    return [setpriv, "--pdeathsig", how.name.removeprefix("SIG"), "--"] if setpriv else []


def _group_of(user: str | None) -> int | None:
    return getpwnam(user).pw_gid if user else None


def _children(parent: int) -> list[int]:
    return [pid for pid in _pids() if _stat(pid)[1] == parent]


def is_alive(pid: int) -> bool:
    return _stat(pid)[0] not in "ZX"


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _stat(pid: int) -> tuple[str, int]:
    """Return a process's state and its parent; state X when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def _signal(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return

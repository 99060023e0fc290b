"""A plugin of pytest: the processor time of each test, with that of every process and server it starts.

Run: make test ARGS='-p tools.cpu_times tests/integration/engine'. With `-n` too, each worker for itself.
"""

import ctypes
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN = 40
FILE = "SHOAL_CPU_TIMES"  # the variable with the name of the file
PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


def _read_own() -> float:
    return sum(os.times()[:4])


def _read_all() -> float:
    """Return the seconds that this process and all below it have used, ended ones among them."""
    children: dict[int, list[int]] = defaultdict(list)
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        used[int(entry.name)] = sum(map(int, fields[11:15]))
        children[int(fields[1])].append(int(entry.name))
    total, left = 0, [os.getpid()]
    while left:
        pid = left.pop()
        total += used[pid]
        left += children[pid]
    return total / TICKS


class CpuTimes:
    """Writes the time of each test into a file that the workers of `-n` share."""

    def __init__(self) -> None:
        if FILE not in os.environ:
            handle, os.environ[FILE] = tempfile.mkstemp(prefix="cpu-times-")
            os.close(handle)
        self._file = Path(os.environ[FILE])
        self._process = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self._process != os.getpid():
            # A process whose parent has ended stays below this one. A fork does not inherit that.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
            self._process = os.getpid()
        # To look at every process takes longer than most unit tests, which wait for those that they start.
        read = _read_own if item.nodeid.startswith("tests/unit/") else _read_all
        before = read()
        try:
            return (yield)
        finally:
            with self._file.open("a") as file:
                file.write(f"{read() - before:.3f} {item.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        tests: list[tuple[float, str]] = []
        files: dict[str, list[float]] = defaultdict(list)
        for line in self._file.read_text().splitlines():
            number, _, test = line.partition(" ")
            tests.append((float(number), test))
            files[test.partition("::")[0]].append(float(number))
        write(f"CPU seconds: {sum(seconds for seconds, _ in tests):.1f} of {len(tests)} tests ({self._file})")
        for file, each in sorted(files.items(), key=lambda entry: -sum(entry[1]))[:SHOWN]:
            write(f"{sum(each):7.2f}  {len(each):5}  {file}")
        for seconds, test in sorted(tests, reverse=True)[:SHOWN]:
            write(f"{seconds:7.2f}  {test}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTimes())

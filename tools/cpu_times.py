"""A plugin of pytest: the processor time of each test, with that of every process and server it starts.

Run: make test ARGS='-p tools.cpu_times tests/integration/engine'. It takes one process, so no -n.
"""

import ctypes
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN = 40
PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")
_tests: dict[str, float] = {}


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


def pytest_configure(config: pytest.Config) -> None:
    # A process whose parent has ended stays below this one.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # A look at every process takes longer than most unit tests, which start none that they do not wait for.
    read = _read_own if item.nodeid.startswith("tests/unit/") else _read_all
    before = read()
    try:
        return (yield)
    finally:
        seconds = read() - before
        _tests[item.nodeid] = seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write = terminalreporter.write_line
    files: dict[str, list[float]] = defaultdict(list)
    for test, seconds in _tests.items():
        files[test.partition("::")[0]].append(seconds)
    write(f"CPU seconds: {sum(_tests.values()):.1f} of {len(_tests)} tests")
    for file, each in sorted(files.items(), key=lambda entry: -sum(entry[1]))[:SHOWN]:
        write(f"{sum(each):7.2f}  {len(each):5}  {file}")
    for test, seconds in sorted(_tests.items(), key=lambda entry: -entry[1])[:SHOWN]:
        write(f"{seconds:7.2f}  {test}")

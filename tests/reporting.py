"""What a run of the tests always says: which test hung, which failed, and which were skipped and why."""

import faulthandler
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# `timeout` in pyproject.toml fails a test that hangs. This ends the process of one that cannot be
# interrupted, or that hangs again while its fixtures are closed; `--jobs` then names it and goes on.
GRACE = 180.0


class TestReporting:
    """Hooks that keep a failing run from ending without a name."""

    __test__ = False

    def __init__(self) -> None:
        self._timer_ends = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._arm(item)
        try:
            return (yield)
        finally:
            if nextitem is None:
                self._disarm()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        # pytest's own plugin has just switched the timer off, for the sake of debuggers.
        if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
            self._disarm()
            self._arm(node)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        try:
            return (yield)
        except Exception as error:
            # CPython 3.11 can fail to parse the source of a frame while a garbage collection parses too
            # ("AST constructor recursion depth mismatch"). pytest would end here without naming the test.
            return _plain_report(item, call, error)

    def _arm(self, item: pytest.Item) -> None:
        limit = _limit(item)
        ends = time.monotonic() + limit + GRACE
        # The timer is a thread. One for each of ten thousand tests takes longer than many of the tests do, so
        # it goes on from test to test, and ends at most a third of the grace too early.
        if limit and ends - GRACE / 3 <= self._timer_ends <= ends:
            return
        self._disarm()
        if limit:
            file = item.config.stash.get(fault_handler_stderr_fd_key, sys.__stderr__)
            faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=file)
            self._timer_ends = ends

    def _disarm(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._timer_ends = 0.0

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        terminal = config.pluginmanager.getplugin("terminalreporter")
        if terminal is None:
            return
        reasons = Counter(_reason(report) for report in terminal.stats.get("skipped", ()))
        if reasons:
            told = "; ".join(f"{count} because {reason}" for reason, count in reasons.most_common())
            terminal.write_line(f"Skipped: {told}")


def _limit(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout") or 0)


def _plain_report(item: pytest.Item, call: pytest.CallInfo[None], error: Exception) -> pytest.TestReport:
    assert call.excinfo is not None, error
    frames = traceback.extract_tb(call.excinfo.tb, limit=-30)
    lines = [
        f"{call.excinfo.typename}: {call.excinfo.value}",
        *(f"{frame.filename}:{frame.lineno}: in {frame.name}" for frame in frames),
        f"(pytest could not format this failure: {type(error).__name__}: {error})",
    ]
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr="\n".join(lines),
        when=call.when,
        duration=call.duration,
        start=call.start,
        stop=call.stop,
    )


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return reason.removeprefix("Skipped: ")

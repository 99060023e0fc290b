"""`--jobs N` collects the tests once and runs them in N processes that are forked then.

pytest-xdist collects in each of its processes, which takes 20 s of processor time for fifteen thousand tests.
"""

import atexit
import os
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import ClassVar, Literal

import pytest
from _pytest.config import create_terminal_writer

from tests.servers.process import PROCESS, ServerMissing
from tests.servers.rabbitmq import SharedRabbit

# Tests that a process is given beside the one it runs: the next must be known when one begins, and a process
# need not wait for the one after it. Near the end it may wait: no other process can take what it was given.
AHEAD, AHEAD_AT_END = 2, 1
FEW = 20  # tests of the longest share, from which on the end is near
# Folders and files whose tests run in one process: each would start a network of eleven programs, fill a
# database with 125,000 tasks, or start a RabbitMQ of its own.
TOGETHER = {
    *("tor", "test_claim_cost.py", "test_tls.py"),
    *("test_alarms.py", "test_restarts.py", "test_rabbitmq.py"),
}
SLOW = 120  # seconds that a test may take if it says nothing; others are begun first

Phase = Literal["setup", "call", "teardown"]
Passed = tuple[Phase, float, float, float]  # a phase of a test, its duration, its start and its end
Message = tuple[list[Passed | dict[str, object]], bool]  # reports, and whether their test is over


def share_out(items: Sequence[pytest.Item], jobs: int) -> list[deque[int]]:
    """Return the numbers of the tests for each process: what takes longest first, costly servers once."""
    slow, together, rest = [], [], []
    for number, item in enumerate(items):
        limit = item.get_closest_marker("timeout")
        if TOGETHER & {item.path.parent.name, item.path.name}:
            together.append(number)
        elif limit and limit.args[0] > SLOW:
            slow.append(number)
        else:
            rest.append(number)
    borders = [len(rest) * number // jobs for number in range(jobs + 1)]
    shares = [deque(rest[first:last]) for first, last in pairwise(borders)]
    shares[-1].extendleft(reversed(together))
    for number, index in enumerate(slow):
        shares[number % jobs].appendleft(index)
    return shares


def needs_rabbitmq(item: pytest.Item) -> bool:
    """Tell whether a test is one of those that may use a RabbitMQ; those in tests/unit start no server."""
    return "rabbitmq" in item.nodeid and not item.nodeid.startswith("tests/unit/")


def load_characters(items: Sequence[pytest.Item]) -> None:
    """Make the tables of characters of Hypothesis before processes are forked, if a test needs them.

    In a new checkout they take three seconds of processor time, which each process would spend by itself.
    """
    if any(getattr(getattr(item, "obj", None), "is_hypothesis_test", False) for item in items):
        from hypothesis.strategies import text

        text().validate()


class ForkedProcesses:
    """Gives each process a share of the tests, and the shares of slow ones to those that have ended."""

    rabbitmq: ClassVar[SharedRabbit | None] = None  # of all processes, if a test needs it

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None  # as pytest does it
        # A process that finds it made takes a folder below it, which nobody else looks through.
        session.config._tmp_path_factory.getbasetemp()
        sys.stdout.flush()
        sys.stderr.flush()
        processes: list[TestProcess] = []
        servers = ExitStack()
        try:
            self._begin_servers(session, servers)
            load_characters(session.items)
            for number, share in enumerate(share_out(session.items, self._jobs)):
                processes.append(TestProcess(session, number, share, processes))
            self._run(session, processes)
        finally:
            for process in processes:
                process.end()
            servers.close()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _begin_servers(self, session: pytest.Session, servers: ExitStack) -> None:
        """Begin to start what is too costly to start in each process."""
        if any(needs_rabbitmq(item) for item in session.items):
            with suppress(ServerMissing):  # each test says so
                ForkedProcesses.rabbitmq = SharedRabbit()
                servers.callback(ForkedProcesses.rabbitmq.close)
                ForkedProcesses.rabbitmq.begin()

    def _run(self, session: pytest.Session, processes: list["TestProcess"]) -> None:
        by_connection = {process.connection: process for process in processes}
        while by_connection and not session.shouldfail:
            for connection in wait(list(by_connection)):
                process = by_connection.pop(connection)
                try:
                    process.receive(connection.recv())
                except (EOFError, ConnectionError):
                    process.end()
                    if process.has_work:
                        process.report_crash()
                    if not process.has_work:
                        continue
                    process.fork(processes)
                by_connection[process.connection] = process
                process.send(processes)


class TestProcess:
    """One process, and what it has to do."""

    __test__ = False

    def __init__(
        self, session: pytest.Session, number: int, share: deque[int], others: Sequence["TestProcess"]
    ) -> None:
        self._session, self._number = session, number
        self.share = share  # what it was not given yet
        self._given: deque[int] = deque()  # the first of them is running
        self.fork(others)
        self.send(others)

    def fork(self, others: Sequence["TestProcess"]) -> None:
        """Start the process, or another one after it has crashed."""
        self.share.extendleft(reversed(self._given))
        self._given.clear()
        self._is_closed = False  # whether it knows that there are no more tests
        self.connection, theirs = Pipe()
        self.pid = os.fork()
        if not self.pid:
            # Each process must see when the parent closes its connection: nobody else may hold that end.
            for process in (self, *others):
                process.connection.close()
            _run_tests(self._session, self._number, theirs)
        theirs.close()

    @property
    def has_work(self) -> bool:
        """Whether tests are left to it."""
        return bool(self._given or self.share)

    def send(self, others: Sequence["TestProcess"]) -> None:
        """Give it tests, those of others if it has none, or tell it that there are no more."""
        if self._is_closed:
            return
        if not self.share:
            self._steal(others)
        try:
            ahead = AHEAD if len(self.share) > FEW else AHEAD_AT_END
            while self.share and len(self._given) <= ahead:
                self._given.append(self.share.popleft())
                self.connection.send(self._given[-1])
            if not self.share and len(self._given) <= 1:
                self._is_closed = True
                self.connection.send(None)
        except ConnectionError:
            pass  # it has crashed: reading from it says so

    def _steal(self, others: Sequence["TestProcess"]) -> None:
        """Take the second half of the longest share."""
        victim = max(others, key=lambda process: len(process.share), default=self)
        for _ in range((len(victim.share) + 1) // 2):
            self.share.appendleft(victim.share.pop())

    def receive(self, message: Message) -> None:
        """Handle reports of the first of its tests, and that it is over."""
        reports, is_over = message
        hook, config = self._session.config.hook, self._session.config
        item = self._session.items[self._given[0]]
        for sent in reports:
            if isinstance(sent, dict):
                report = hook.pytest_report_from_serializable(config=config, data=sent)
            else:
                report = _report_of(item, *sent)
            hook.pytest_runtest_logreport(report=report)
        if is_over:
            self._given.popleft()
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def report_crash(self) -> None:
        """Report that the process ended in the middle of a test."""
        item = self._session.items[self._given.popleft() if self._given else self.share.popleft()]
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"{item.nodeid} ended its process: {self._exit_code}",
            when="call",
        )
        item.ihook.pytest_runtest_logreport(report=report)

    def end(self) -> None:
        """Wait for the process, which ends where it has no more tests, or cannot ask for any."""
        self.connection.close()
        if self.pid:
            _, status = os.waitpid(self.pid, 0)
            self._exit_code = os.waitstatus_to_exitcode(status)
            self.pid = 0


class Reports:
    """Sends reports to the parent: when a test is over, and at once what is more than a passed phase.

    Nearly all are of phases that passed and wrote nothing, of which the parent needs four values: it has the
    test itself.
    """

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection
        self._waiting: list[Passed | dict[str, object]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if type(report) is pytest.TestReport and report.passed and not has_details(report):
            self._waiting.append((report.when, report.duration, report.start, report.stop))
            return
        to_data = self._config.hook.pytest_report_to_serializable
        self._waiting.append(to_data(config=self._config, report=report))
        self.send(is_over=False)

    def send(self, *, is_over: bool) -> None:
        """Send what was not sent yet, and whether the test is over."""
        self._connection.send((self._waiting, is_over))
        self._waiting.clear()


def has_details(report: pytest.TestReport) -> bool:
    """Tell whether a report has output, properties, or the reason why its test was expected to fail."""
    return bool(report.sections or report.user_properties or hasattr(report, "wasxfail"))


def _report_of(
    item: pytest.Item, when: Phase, duration: float, start: float, stop: float
) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when=when,
        duration=duration,
        start=start,
        stop=stop,
    )


def _run_tests(session: pytest.Session, number: int, connection: Connection) -> None:
    """Run tests until there are no more; does not return."""
    code = 1
    try:
        os.environ[PROCESS] = str(number)
        reports = _prepare(session.config, number, connection)
        hook = session.config.hook
        items = iter(_given(session, connection))
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            hook.pytest_runtest_protocol(item=item, nextitem=following)
            reports.send(is_over=True)
            item = following
        code = 0
    except (ConnectionError, EOFError, KeyboardInterrupt):
        session._setupstate.teardown_exact(None)  # the parent has ended, or wants no more
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        os._exit(code)


def _given(session: pytest.Session, connection: Connection) -> Iterator[pytest.Item]:
    while (index := connection.recv()) is not None:
        yield session.items[index]


def _prepare(config: pytest.Config, number: int, connection: Connection) -> Reports:
    """Make this process report to its parent instead of the terminal, and share no files with others."""
    plugins = config.pluginmanager
    terminal = plugins.unregister(name="terminalreporter")
    assert terminal is not None
    # Where pytest-timeout writes the stacks of a test that hangs: into the test's own output.
    config.get_terminal_writer = lambda: create_terminal_writer(config, sys.stdout)
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / f"process-{number}"
    factory._basetemp.mkdir(exist_ok=True)
    reports = Reports(config, connection)
    plugins.register(reports)
    return reports

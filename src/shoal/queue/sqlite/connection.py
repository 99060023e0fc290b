"""Connections to the database file: how it is opened and migrated, and the threads that own a connection."""

import asyncio
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw
import msgspec

from shoal.core.errors import QueueError, QueueReadOnly, QueueReplaced
from shoal.queue.schema import must_migrate
from shoal.queue.sqlite.errors import not_a_queue, translate_error
from shoal.queue.sqlite.store import Store

APPLICATION_ID = 0x53686F6C  # "Shol", in the file's header
BUSY_TIMEOUT = timedelta(seconds=30)
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 16_000  # 64 MB of write-ahead log
SHORT_LOG_BYTES = 4 << 20
MAX_BATCH = 100  # calls of a thread that are served together

P = ParamSpec("P")
T = TypeVar("T")


class SqliteAddress(msgspec.Struct, frozen=True):
    """The path of the database file and how to open it."""

    path: Path
    synchronous: str = "normal"
    busy_timeout: timedelta = BUSY_TIMEOUT


def connect(address: SqliteAddress) -> apsw.Connection:
    """Open the file, creating it and its folders if necessary; raises QueueError."""
    try:
        address.path.parent.mkdir(parents=True, exist_ok=True)
        _make_private(address.path)
        return _open(address)
    except (apsw.Error, OSError) as error:
        raise translate_error(error, address.path) from error


def _make_private(path: Path) -> None:
    """Create a missing file readable by its owner only: it holds secrets and the bodies that tasks send.

    SQLite gives the log beside it the same mode. The mode of an existing file is not changed.
    """
    # Only a new file is opened here: closing a file that this process has locked would release its locks.
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _open(address: SqliteAddress) -> apsw.Connection:
    connection = apsw.Connection(str(address.path), statementcachesize=200)
    try:
        connection.set_busy_timeout(round(address.busy_timeout.total_seconds() * 1000))
        _check(connection, address.path)
        _to_wal(connection, address.busy_timeout)
        connection.pragma("synchronous", address.synchronous)
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("temp_store", "memory")
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    """Raise for a file that cannot be written, or that belongs to another program."""
    if connection.readonly("main"):
        raise QueueReadOnly(str(path), "the file is read-only")
    # In this order: another process may be creating the tables, and sets the application id with them.
    if _has_tables(connection) and connection.pragma("application_id") != APPLICATION_ID:
        raise not_a_queue(path, "is a database of another program")


def _has_tables(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone() == (1,)


def _to_wal(connection: apsw.Connection, busy_timeout: timedelta) -> None:
    """Switch to the write-ahead log; the setting is stored in the file."""
    deadline = time.monotonic() + busy_timeout.total_seconds()
    while connection.pragma("journal_mode") != "wal":
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            # SQLite does not apply the busy timeout here when many processes open a new file at once.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# Schema


def migrate(store: Store) -> int:
    """Run the scripts that the file lacks, in the caller's transaction; return the schema version."""
    found = int(store.connection.pragma("user_version"))
    newest = max(scripts())
    if must_migrate(found, newest):
        for script in [script for number, script in scripts().items() if number > found]:
            store.connection.execute(script)
        store.connection.pragma("user_version", newest)
        store.connection.pragma("application_id", APPLICATION_ID)
    return max(found, newest)


@cache
def scripts() -> dict[int, str]:
    """Return the migrations in order, by the version that each makes."""
    found = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return {int(script.name[:4]): script.read_text(encoding="utf-8") for script in found}


# Threads


class ThreadCall(msgspec.Struct, eq=False):
    """A function to run in the thread, and the future for its result."""

    function: Callable[[Store], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None

    def deliver(self) -> None:
        """Set the result of the future, if the caller still waits."""
        if self.future.done():
            return
        if self.error:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class CallHandler(ABC):
    """Opens the file, and refuses calls once another file, or none, has its name.

    What is written to a file without a name is gone when the last program closes it.
    """

    def __init__(self, address: SqliteAddress, clock: Callable[[], datetime]) -> None:
        self._address, self._clock = address, clock

    def open(self) -> Store:
        connection = connect(self._address)
        self._opened = self._address.path.stat()
        return Store(connection, self._clock)

    @abstractmethod
    def serve(self, store: Store, calls: Sequence[ThreadCall]) -> None:
        """Run the calls, and store a result or an error in each."""

    def close(self, store: Store) -> None:
        """Close the store's connection."""
        store.connection.close()

    def refuse_if_replaced(self, calls: Sequence[ThreadCall]) -> bool:
        """Set the error of all calls and return True if the file was removed or replaced."""
        try:
            if os.path.samestat(self._address.path.stat(), self._opened):
                return False
        except FileNotFoundError:
            pass
        except OSError:  # it cannot be known now
            return False
        for call in calls:
            call.error = QueueReplaced(str(self._address.path))
        return True


class ConnectionThread:
    """One thread that serves calls; those that arrive meanwhile are served as one batch."""

    def __init__(self, handler: CallHandler) -> None:
        self._handler = handler
        self._inbox: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._stopped: Future[None] = Future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=type(handler).__name__, daemon=True)

    async def open(self) -> None:
        """Start the thread; raises the exception of the handler's `open`."""
        self._thread.start()
        await _wait_for(self._opened)

    async def call(
        self, function: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function in the thread and return its result."""
        if self._closed:
            raise QueueError("The queue is closed. Open it again to continue.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._inbox.put(ThreadCall(lambda store: function(store, *args, **kwargs), future))
        return await future

    async def close(self) -> None:
        """Finish the pending calls and stop the thread."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
        if self._thread.ident is not None:
            await _wait_for(self._stopped)
            self._thread.join()

    # In the thread

    def _run(self) -> None:
        try:
            store = self._handler.open()
        except Exception as error:
            self._closed = True
            self._opened.set_exception(error)
            self._stopped.set_result(None)
            return
        self._opened.set_result(None)
        try:
            while self._serve(store):
                pass
        finally:
            self._handler.close(store)
            self._stopped.set_result(None)

    def _serve(self, store: Store) -> bool:
        """Wait for calls and serve them; False when the thread should stop."""
        received = self._receive()
        calls = [call for call in received if call is not None and not call.future.cancelled()]
        try:
            self._handler.serve(store, calls)
        except Exception as error:
            for call in calls:
                call.error = error
        _send_results(calls)
        return None not in received

    def _receive(self) -> list[ThreadCall | None]:
        received = [self._inbox.get()]
        while len(received) < MAX_BATCH and not self._inbox.empty():
            received.append(self._inbox.get())
        return received


def _send_results(calls: Sequence[ThreadCall]) -> None:
    """Send the results to their event loops, one callback for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[ThreadCall]] = {}
    for call in calls:
        loops.setdefault(call.future.get_loop(), []).append(call)
    for loop, finished in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_deliver, finished)


def _deliver(calls: Sequence[ThreadCall]) -> None:
    for call in calls:
        call.deliver()


async def _wait_for(future: Future[None]) -> None:
    # Shielded: a caller that is cancelled must not cancel the future that the thread will set.
    await asyncio.shield(asyncio.wrap_future(future))


# What the threads do


class ReadHandler(CallHandler):
    """Serves each call in its own short read transaction."""

    def open(self) -> Store:
        store = super().open()
        store.connection.pragma("query_only", True)
        return store

    def serve(self, store: Store, calls: Sequence[ThreadCall]) -> None:
        if self.refuse_if_replaced(calls):
            return
        for call in calls:
            try:
                with store.connection:
                    call.result = call.function(store)
            except Exception as error:
                call.error = translate_error(error, self._address.path)


class WriteHandler(CallHandler):
    """Serves calls in batches: each call is atomic, and the whole batch needs one commit."""

    def close(self, store: Store) -> None:
        # As far as possible without waiting for other processes; the last one to close does the rest. A short
        # log is left to it: syncing the disk three times would delay the end of every worker.
        store.connection.set_busy_timeout(0)
        with suppress(apsw.Error, OSError):
            if Path(store.connection.filename_wal).stat().st_size > SHORT_LOG_BYTES:
                store.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        store.connection.close()

    def serve(self, store: Store, calls: Sequence[ThreadCall]) -> None:
        if self.refuse_if_replaced(calls):
            return
        # A full disk can roll back the whole batch. Then each call runs in its own transaction.
        if len(calls) == 1 or not self._serve_batch(store, calls):
            for call in calls:
                self._serve_one(store, call)

    def _serve_one(self, store: Store, call: ThreadCall) -> None:
        call.error = None
        try:
            _begin(store)
            call.result = call.function(store)
            _commit(store)
        except Exception as error:
            store.roll_back()
            call.error = translate_error(error, self._address.path)

    def _serve_batch(self, store: Store, calls: Sequence[ThreadCall]) -> bool:
        """Serve all calls in one transaction; False if it was rolled back."""
        try:
            _begin(store)
        except apsw.Error as error:
            for call in calls:
                call.error = translate_error(error, self._address.path)
            return True
        try:
            for call in calls:
                self._serve_in_savepoint(store, call)
            _commit(store)
        except apsw.Error:
            store.roll_back()
            return False
        return True

    def _serve_in_savepoint(self, store: Store, call: ThreadCall) -> None:
        """Serve one call of a batch; raises apsw.Error if the transaction of the batch is gone."""
        store.connection.execute("SAVEPOINT one")
        try:
            call.result = call.function(store)
        except Exception as error:
            call.error = translate_error(error, self._address.path)
            store.roll_back(to="one")
        store.connection.execute("RELEASE one")


def _begin(store: Store) -> None:
    store.connection.execute("BEGIN IMMEDIATE")


def _commit(store: Store) -> None:
    store.connection.execute("COMMIT")

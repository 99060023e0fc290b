"""What can be the matter with a store that neither dies nor is out of reach: full, read-only, out of date.

A condition begins, and returns what ends it; None where it cannot begin now.
"""

import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFailed, free_port
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

Undo = Callable[[], None]
ELSEWHERE = "elsewhere"  # a database beside the queue's
LOCK_TIMEOUT = SYNC_TIMEOUT = 5.0  # seconds
END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"

ALLOW_WRITES = "ALTER DATABASE postgres RESET default_transaction_read_only"
HAS_REPLAYED = (
    "SELECT coalesce(bool_or(replay_lsn >= '{}'::pg_lsn), false) FROM pg_stat_replication "
    "WHERE state = 'streaming'"
)

# A session that was being opened has read the old setting and is listed a moment later. A pool would keep it
# for an hour, and the store would stay read-only to whoever is given it.
END_LATECOMERS = ("SELECT pg_sleep(1)", f"{END_OTHERS} AND backend_start < now() - interval '1 second'")


@dataclass(frozen=True)
class Condition:
    """Something that can be the matter with a server of the store."""

    target: str
    begin: Callable[[], Undo | None]


def hold_file(file: Path) -> Condition:
    """Keep a writing transaction open on the file of a SQLite queue."""

    def begin() -> Undo | None:
        connection = sqlite3.connect(file, timeout=LOCK_TIMEOUT, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # the fleet is too busy with it
            connection.close()
            return None
        return connection.close

    return Condition(file.name, begin)


def hold_transaction(primary: Callable[[], PostgresServer]) -> Condition:
    """Keep a writing transaction open in another database of the server: nothing in it is the queue's."""

    def begin() -> Undo:
        server = primary()
        if not server.sql(f"SELECT 1 FROM pg_database WHERE datname = '{ELSEWHERE}'", database="template1"):
            server.sql(f"CREATE DATABASE {ELSEWHERE}", database="template1")
        psql = server.psql(ELSEWHERE)
        process = subprocess.Popen(
            psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdin and process.stdout
        process.stdin.write("BEGIN; SELECT txid_current();\n")
        process.stdin.flush()
        process.stdout.readline()

        def end() -> None:
            process.kill()
            process.communicate()

        return end

    return Condition(f"{PostgresServer.name}, database {ELSEWHERE}", begin)


def refuse_writes(primary: Callable[[], PostgresServer]) -> Condition:
    """Make the database of the queue read-only to all who connect from now on, and end who is connected."""

    def begin() -> Undo:
        _run(primary(), "ALTER DATABASE postgres SET default_transaction_read_only = on", END_OTHERS)
        return lambda: _run(primary(), ALLOW_WRITES, END_OTHERS, *END_LATECOMERS)

    return Condition(PostgresServer.name, begin)


def _run(server: PostgresServer, *statements: str) -> None:
    server.sql(*statements, database="template1")


def fill_memory(primary: Callable[[], RedisServer]) -> Condition:
    """Allow Redis less memory than it uses."""

    def begin() -> Undo:
        primary().cli("CONFIG", "SET", "maxmemory", 1)
        return lambda: _command(primary(), "CONFIG", "SET", "maxmemory", 0)

    return Condition("redis", begin)


def replicate_from_nowhere(primary: Callable[[], RedisServer]) -> Condition:
    """Make Redis the replica of a server that is not there: it serves reads, and refuses writes."""

    def begin() -> Undo:
        primary().cli("REPLICAOF", "127.0.0.1", free_port())
        return lambda: _command(primary(), "REPLICAOF", "NO", "ONE")

    return Condition("redis", begin)


def _command(server: RedisServer, *words: str | int) -> None:
    server.cli(*words)


@dataclass
class Failover:
    """A replica that misses the last moments of its primary, and takes its place."""

    primary: Callable[[], RedisServer]
    lead_to: Callable[[RedisServer], None]
    replica: RedisServer

    def begin(self) -> Undo | None:
        """Cut the replica off, if it has all that the primary had a moment ago."""
        if not self._has_synced():
            return None
        self.replica.follow(None)
        return self._promote

    def _promote(self) -> None:
        old, new = self.primary(), self.replica
        old.kill()
        self.lead_to(new)
        old.follow(new)
        old.start()
        self.replica = old

    def _has_synced(self) -> bool:
        give_up = time.monotonic() + SYNC_TIMEOUT
        with suppress(ServerFailed):
            now = int(_replication(self.primary())["master_repl_offset"])
            while time.monotonic() < give_up:
                if _offset(self.replica) >= now:
                    return True
                time.sleep(0.05)
        return False


def _offset(replica: RedisServer) -> int:
    """Return how much of its primary's data a replica has; -1 if it is about to receive all of it anew."""
    with suppress(ServerFailed):  # it loads what its primary has sent
        told = _replication(replica)
        if told["role"] == "slave" and told["master_link_status"] == "up":
            return int(told["slave_repl_offset"])
    return -1


def _replication(server: RedisServer) -> dict[str, str]:
    lines = server.cli("INFO", "replication").splitlines()
    return dict(line.strip().split(":", 1) for line in lines if ":" in line)


@dataclass
class Promotion:
    """An asynchronous standby that misses the last moments of its primary, and takes its place."""

    primary: Callable[[], PostgresServer]
    lead_to: Callable[[PostgresServer], None]
    standby: PostgresServer

    def begin(self) -> Undo | None:
        """Stop the standby, if it has all that the primary had a moment ago."""
        if not self._has_synced():
            return None
        self.standby.stop()
        return self._promote

    def _promote(self) -> None:
        old, new = self.primary(), self.standby
        old.kill()
        new.start()
        new.promote()
        # The end of a read-only period may be among what it missed.
        _run(new, ALLOW_WRITES)
        self.lead_to(new)
        old.start_standby_of(new)
        self.standby = old

    def _has_synced(self) -> bool:
        give_up = time.monotonic() + SYNC_TIMEOUT
        with suppress(ServerFailed):
            now = self.primary().sql("SELECT pg_current_wal_lsn()", database="template1")
            while time.monotonic() < give_up:
                if self.primary().sql(HAS_REPLAYED.format(now), database="template1") == "t":
                    return True
                time.sleep(0.05)
        return False


def alarm(broker: RabbitServer) -> Condition:
    """Raise the broker's memory alarm: it reads nothing from connections that publish."""

    def begin() -> Undo:
        broker.set_memory_limit("1MB")
        return lambda: broker.set_memory_limit("1GB")

    return Condition(broker.name, begin)

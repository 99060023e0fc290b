"""A private PostgreSQL."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self
from zlib import crc32

from tests.servers.process import ServerFailed, ServerProcess, find_program

USER = "shoal"
NO_SETTINGS: Mapping[str, str] = {}

# No test needs to survive a power cut. A killed server does: `synchronous_commit` stays on, so that what was
# committed is in the system's cache before the client hears of it.
FORGETFUL = {"fsync": "off", "full_page_writes": "off"}
INITDB_OPTIONS = ("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
# What initdb has made, for the next servers: a copy takes a tenth of its processor time.
MADE = Path(__file__).parents[2] / "build" / "initdb"


class PostgresServer(ServerProcess):
    """A PostgreSQL of our own on 127.0.0.1, and on a socket in its folder; `durable` keeps fsync on."""

    name = "postgres"
    stop_signal = signal.SIGINT  # the fast shutdown; SIGTERM would wait for every client

    def __init__(
        self,
        *,
        durable: bool = False,
        shared_buffers: str = "128MB",
        max_connections: int = 200,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self._bin = find_program("initdb", "postgresql", _debian_folders()).resolve().parent
        super().__init__()
        self._data = self.folder / "data"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": str(max_connections),
            "shared_buffers": shared_buffers,
            **({} if durable else FORGETFUL),
            **settings,
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server, on the data of the last time if there was one."""
        if not self._data.exists():
            self._initdb()
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._spawn([self._bin / "postgres", "-D", self._data, *options], self._is_ready)

    def start_standby_of(self, primary: "PostgresServer") -> None:
        """Start as a standby that follows another server, from a copy of its data in place of its own."""
        shutil.rmtree(self._data, ignore_errors=True)
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", USER]
        copy: list[str | Path] = ["-D", self._data, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self._run([self._bin / "pg_basebackup", *source, *copy])
        self.start()

    def promote(self) -> None:
        """Make a standby a primary, and return once it takes writes."""
        self.sql("SELECT pg_promote(wait_seconds => 60)")

    def restart(self) -> None:
        """Stop the server in good order and start it again on the same port and data."""
        self.stop()
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, over TCP."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        """Return the address of a database, over the unix socket."""
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """Run statements, each in its own transaction, and return what they print; raises ServerFailed."""
        command = self.psql(database)
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerFailed(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def psql(self, database: str = "postgres") -> list[str | Path]:
        """Return the command that reads statements for a database from stdin."""
        return [self._bin / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.socket_url(database)]

    def clone(self, template: str, name: str, *, instead_of: str = "") -> None:
        """Make a copy of a database that nobody is connected to, and drop another one if it is there."""
        # PostgreSQL 15 began to write copies to the log page by page, which takes up to four times as long.
        strategy = "STRATEGY file_copy" if self._version >= 150_000 else ""
        drop = [f"DROP DATABASE IF EXISTS {instead_of} WITH (FORCE)"] if instead_of else []
        self.sql(*drop, f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")

    @cached_property
    def _version(self) -> int:
        return int(self.sql("SHOW server_version_num"))

    def _initdb(self) -> None:
        """Make the data of a new server, or copy what was made by the same program with the same options."""
        program = self._bin / "initdb"
        marks = (program, program.stat().st_mtime_ns, self.user, os.geteuid(), *INITDB_OPTIONS)
        made = MADE / f"{crc32(repr(marks).encode()):08x}"
        if made.exists():
            _copy(made, self._data)
            return
        self._run([program, "-D", self._data, *INITDB_OPTIONS])
        with suppress(OSError, subprocess.CalledProcessError):  # without it, the next server calls initdb too
            MADE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=MADE) as folder:
                # It appears whole, or not at all: other processes look for it meanwhile.
                _copy(self._data, Path(folder) / "data")
                (Path(folder) / "data").rename(made)

    def _is_ready(self) -> bool:
        """Tell whether the server says so in its pid file."""
        # The pid is compared because a killed server leaves its file behind.
        pid_file = self._data / "postmaster.pid"
        try:
            lines = pid_file.read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its owners and permissions."""
    subprocess.run(["cp", "-a", source, target], check=True, capture_output=True)


def _debian_folders() -> list[Path]:
    """Return the folders of the installed versions, the newest first."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(folders, key=lambda folder: float(folder.parent.name), reverse=True)

"""Empties a database again and again, much sooner than it could be made anew."""

import subprocess
from typing import Self

from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFailed

# What tests have left at work would hold locks; idle connections hold none. A table without rows is left
# alone: truncating makes new files. The host without a name is there from the first migration on.
_EMPTY = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state IS DISTINCT FROM 'idle';
DO $$
DECLARE
    one text; has_rows boolean; filled text[] := '{}';
BEGIN
    FOR one IN
        SELECT oid::regclass FROM pg_class
        WHERE relnamespace = 'shoal'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND relname NOT IN ('migration', 'host')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', one) INTO has_rows;
        IF has_rows THEN filled := filled || one; END IF;
    END LOOP;
    IF filled <> '{}' THEN EXECUTE 'TRUNCATE ' || array_to_string(filled, ', '); END IF;
    DELETE FROM shoal.host WHERE id <> 0;
END $$;
\\echo emptied
"""


class Eraser:
    """A psql that stays connected to one database."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        command = [str(word) for word in server.psql(database)]
        self._psql = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._psql.communicate("\\q\n", timeout=30)

    def empty(self) -> None:
        """Delete every row that Shoal's tables hold; raises ServerFailed."""
        assert self._psql.stdin and self._psql.stdout
        self._psql.stdin.write(_EMPTY)
        self._psql.stdin.flush()
        told = []
        for line in self._psql.stdout:
            if line == "emptied\n":
                return
            told.append(line)
        raise ServerFailed(f"psql: {''.join(told)}")

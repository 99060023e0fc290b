"""A database for each test."""

import pytest

from tests.integration.export.databases import Postgres, Sqlite
from tests.servers.postgres import PostgresServer

NAME = "exports"
CLEAR = ("DROP SCHEMA IF EXISTS public, shop CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def sqlite(tmp_path):
    return Sqlite(tmp_path / "shop.db")


@pytest.fixture(scope="package")
def exports_url(postgres: PostgresServer):
    """One database for all tests: to clear it is cheaper than to create another."""
    postgres.sql(f"CREATE DATABASE {NAME}")
    yield postgres.url(NAME)
    postgres.sql(f"DROP DATABASE {NAME} WITH (FORCE)")


@pytest.fixture
def postgresql(postgres: PostgresServer, exports_url):
    postgres.sql(*CLEAR, database=NAME)
    return Postgres(exports_url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    return request.getfixturevalue(request.param)

"""A database for each test."""

import pytest

from tests.integration.export.databases import Postgres, Sqlite


@pytest.fixture
def sqlite(tmp_path):
    return Sqlite(tmp_path / "shop.db")


@pytest.fixture
def postgresql(empty_postgres_url):
    return Postgres(empty_postgres_url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    return request.getfixturevalue(request.param)

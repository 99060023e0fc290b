"""The SQL texts: read when they are needed, and sent together."""

from shoal.queue.postgres.migrate import MIGRATIONS, NEWEST, _upgrade
from shoal.queue.postgres.sql import NamedQueries, scripts


class Connection:
    """Remembers what is executed in a database without a schema."""

    def __init__(self):
        self.executed = []

    async def execute(self, text):
        self.executed.append(text)

    async def fetchval(self, query, *_):
        return 0 if "max(version)" in query else None


def test_a_named_query_is_read_at_its_first_use():
    queries = NamedQueries()
    assert queries._texts == {}
    assert queries["runs"] == queries["runs"] and list(queries._texts) == ["runs"]
    assert {"runs", "stats", "items", "tasks_leased"} <= queries.keys()
    assert len(queries) == len(dict(queries))


async def test_a_new_schema_is_sent_in_one_request_in_the_order_of_its_files():
    connection = Connection()
    await _upgrade("shoal", connection)
    *_, sent = connection.executed
    assert len(connection.executed) == 4  # the lock, the schema, the table of versions, everything else
    functions = [script.read_text() for _, script in scripts("functions")]
    texts = [script.read_text() for script in MIGRATIONS.values()] + functions
    places = [sent.index(text) for text in texts]
    assert places == sorted(places)
    assert f"VALUES ({NEWEST})" in sent

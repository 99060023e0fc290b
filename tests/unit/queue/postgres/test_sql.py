"""The SQL texts of a new schema are sent together."""

from shoal.queue.postgres.migrate import MIGRATIONS, NEWEST, _upgrade
from shoal.queue.postgres.sql import scripts


class Connection:
    """Remembers what is executed in a database without a schema."""

    def __init__(self):
        self.executed = []

    async def execute(self, text):
        self.executed.append(text)

    async def fetchval(self, query, *_):
        return 0 if "max(version)" in query else None


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

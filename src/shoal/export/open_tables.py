"""Opens a writer for the tables of a database."""

from collections.abc import Callable
from functools import partial

from shoal.export.contract import ExportOptions, Writer
from shoal.export.steps import StepWriter, step_table
from shoal.export.tables.address import TableAddress, read_address
from shoal.export.tables.database import Table
from shoal.export.tables.postgres import PostgresLink, PostgresTable
from shoal.export.tables.sqlite import SqliteLink, SqliteTable
from shoal.export.tables.upsert import TableWriter


def open_tables(location: str, options: ExportOptions) -> Writer:
    """Open a table, or one for each step."""
    address = read_address(location, options.key)
    table = _table_factory(address)

    def open_table(address: TableAddress) -> Writer:
        return TableWriter(
            table(address),
            key=address.key,
            columns=options.columns,
            envelope=options.envelope or address.envelope,
            live=options.live,
            may_lack_key=options.by_step,  # the key of one step may be missing in another
        )

    def step_address(step: str) -> TableAddress:
        return address.renamed(step_table(address.table, step))

    if not options.by_step:
        return open_table(address)
    return StepWriter(
        lambda step: step_address(step).location,
        lambda step: open_table(step_address(step)),
        survey=not options.live,
    )


def _table_factory(address: TableAddress) -> Callable[[TableAddress], Table]:
    """Return a factory for the tables of one database; they share a connection and a transaction."""
    if address.scheme == "sqlite":
        return partial(SqliteTable, link=SqliteLink(address.path))

    return partial(PostgresTable, link=PostgresLink(address))

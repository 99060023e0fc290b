"""Large exports are streamed: memory does not grow with the number of items."""

import asyncio
import gzip
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.processes import start_process

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
COUNT = 40_000


async def probe(target):
    process = await start_process(
        sys.executable,
        "-m",
        "tests.integration.export.probe",
        str(target),
        str(COUNT),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.parametrize("name", ["items.jsonl.gz", "items.csv"])
async def test_a_file_has_all_items_and_needs_little_memory(tmp_path, name):
    result = await probe(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).count(b"\n")
    assert lines - name.endswith(".csv") == result["items"] == COUNT
    assert result["grown"] < 20 * MIB


async def test_a_parquet_file_has_all_items_in_typed_columns(tmp_path):
    result = await probe(tmp_path / "items.parquet")
    table = pq.read_table(tmp_path / "items.parquet")
    assert table.num_rows == result["items"] == COUNT
    types = [str(field.type) for field in table.schema]
    assert types == ["int64", "string", "double", "list<element: string>"]
    assert sum(table.column("isbn").to_pylist()) == sum(range(COUNT))
    assert result["grown"] < 120 * MIB  # pyarrow itself, and one row group


@pytest.mark.long
async def test_a_table_has_all_items_and_needs_little_memory(database):
    result = await probe(database.to())
    (row,) = await database.query("SELECT count(*) AS n, sum(isbn) AS total FROM books")
    assert (row["n"], int(row["total"])) == (COUNT, sum(range(COUNT)))
    assert result["items"] == COUNT
    assert result["grown"] < 30 * MIB

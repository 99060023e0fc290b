"""`shoal top --json` in a pipe ends with its reader."""

import asyncio
import os

import uvloop

from shoal.cli.commands.inspect.top import reader_gone


def test_a_pipe_whose_reader_ends_is_noticed_at_once():
    async def wait():
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as output, reader_gone(output) as gone:
            await asyncio.sleep(0)
            assert not gone.is_set()
            os.close(reading)
            async with asyncio.timeout(10):
                await gone.wait()

    uvloop.run(wait())


def test_a_file_has_no_reader_that_could_end(tmp_path):
    async def write():
        with (tmp_path / "top.json").open("w") as output, reader_gone(output) as gone:
            await asyncio.sleep(0)
            return gone.is_set()

    assert not uvloop.run(write())

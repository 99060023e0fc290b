"""What connects a supervisor to the process of its worker: the channel, the output and the step markers."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Self

from shoal.worker.ipc.protocol import MAX_MESSAGE_BYTES, WorkerConfig, write_config
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.process.forkserver import ForkServer, ForkServerDied, WorkerProcess, read_pipe


class WorkerLink:
    """A worker's process with its configuration sent, and the descriptors that its supervisor shares."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._file = make_file()
        self.markers = StepMarkers(self._file)
        self.process: WorkerProcess | None = None
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None  # of its output

    @classmethod
    async def open(
        cls, fork_server: ForkServer, config: WorkerConfig, on_output: Callable[[str], None]
    ) -> Self:
        """Start a worker with this configuration."""
        link = cls(on_output)
        try:
            await link._start(fork_server, config)
        except BaseException:
            link.close()
            raise
        return link

    async def _start(self, fork_server: ForkServer, config: WorkerConfig) -> None:
        try:
            ours = await self._fork(fork_server)
        except ForkServerDied:
            # With another channel: a worker that was forked nevertheless would read messages for this
            # one. It ends, because its own is closed.
            ours = await self._fork(fork_server)
        self.reader, self.writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
        self.writer.write(write_config(config))

    async def _fork(self, fork_server: ForkServer) -> socket.socket:
        """Fork the process, and return our end of its channel."""
        ours, theirs = socket.socketpair()
        output, output_writer = os.pipe()
        if self.reading:
            self.reading.cancel()
        self.reading = asyncio.create_task(self._read_output(output), name="reading its output")
        try:
            self.process = await fork_server.spawn(theirs.fileno(), self._file, output_writer)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(output_writer)
        return ours

    def close(self) -> None:
        """Kill the process, and close everything."""
        if self.process:
            self.process.kill()
        if self.reading:
            self.reading.cancel()
        if self.writer:
            self.writer.close()
        self.markers.close()
        os.close(self._file)

    async def _read_output(self, output: int) -> None:
        reader, pipe = await read_pipe(output)
        try:
            while piece := await _read_line(reader):
                self._on_output(piece.decode(errors="replace").rstrip())
        finally:
            pipe.close()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, a placeholder for one that is too long to hold, or nothing at the end."""
    try:
        return await reader.readline()
    except ValueError:
        return b"(a line that is too long to show)\n"

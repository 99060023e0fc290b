"""Processes that a test starts."""

import asyncio


async def start_process(*command, **options):
    """Start a process; its pipes are closed with the event loop of the test, whoever still holds them."""
    process = await asyncio.create_subprocess_exec(*command, **options)
    # A process that was killed may leave its pipes to a child that ends later; unclosed, they would fail
    # whichever test comes next. Runners of event loops close the generators that are left.
    process.closing = _close_at_the_end(process)
    await anext(process.closing)
    return process


async def _close_at_the_end(process):
    try:
        yield
    finally:
        process._transport.close()
        await asyncio.sleep(0)  # pipes are closed in the next turn of the loop

"""Creates runs with items through the queue, as workers do."""

from shoal.core.model import ZERO, Done, RunSettings, Task

UNHURRIED = RunSettings(host_delay=ZERO, per_host=10_000)


async def start(queue, *steps, run_id="r1"):
    """Start a run with one task per given step."""
    run = await queue.start_run("books", settings=UNHURRIED, run_id=run_id)
    await queue.enqueue(run.id, [Task(step=step, key=str(number)) for number, step in enumerate(steps)])
    return run


async def settle(queue, run, step, *items):
    """Complete one task of a step with these items."""
    grant = await queue.claim("me", run_id=run.id, limit=1, steps=[step])
    await queue.settle([Done(lease, items=items) for lease in grant.leases])
    assert grant.leases

"""Chooses the seeds of a command: the typed sources, or those that the scraper or its project declares."""

from dataclasses import replace

from shoal.cli.configuration import current_project
from shoal.cli.console import put_message, say
from shoal.fleet.job import Job
from shoal.fleet.sources.declared import declared_seeds, seeds_left
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue


def choose_seeds(
    typed: Seeds, job: Job, *, again: bool = False, resume: bool = False, as_json: bool = False
) -> Seeds:
    """Return the typed sources, else the declared ones, and say which; `again` is a source of its own."""
    tell = put_message if as_json else say
    declared = declared_seeds(current_project(), job)
    if typed or again:
        if declared and not resume:
            tell(f"The typed sources replace the seeds of {declared.declared_in}.")
        return typed
    if declared and not resume:
        tell(f"Seeds: {declared.declared_in}")
    return replace(declared, step=typed.step) if typed.step else declared


async def resumed_seeds(queue: Queue, run_id: str, seeds: Seeds, *, as_json: bool = False) -> Seeds:
    """Return the seeds to enqueue when a run is resumed, and say if any are enqueued again."""
    tell = put_message if as_json else say
    left = await seeds_left(queue, run_id, seeds)
    if left.declared_in:
        tell(f"Seeds: {left.declared_in}. Enqueueing them was interrupted; duplicates are not added.")
    elif left and left is not seeds:
        tell("The sources of the run were not read to the end, and are read again; duplicates are not added.")
    return left

"""How a command opens its run: from the typed sources, or those that the scraper or its project declares."""

from dataclasses import replace

from shoal.cli.configuration import current_project
from shoal.cli.console import put_message, say
from shoal.fleet.job import Job
from shoal.fleet.run.feed import InvalidSeeds, read_policy
from shoal.fleet.run.open_run import StartOptions
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.find import NEWEST


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


def start_options(
    rejects: str | None,
    invalid: str,
    *,
    run_id: str | None = None,
    resume: str | None = None,
    as_json: bool = False,
) -> StartOptions:
    """Return how a command opens its run; `resume` is the id of a run, or `newest`."""
    return StartOptions(
        run_id=run_id if resume in (None, NEWEST) else resume,
        resume=resume is not None,
        routes=current_project().routes,
        invalid=InvalidSeeds(
            read_policy("--invalid", invalid), rejects=rejects, say=put_message if as_json else say
        ),
    )

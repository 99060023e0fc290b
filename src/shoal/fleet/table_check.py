"""Checks partition tables before there is a run: against the seeds that are declared on this machine."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from shoal.core.errors import ShoalError
from shoal.core.values import counted
from shoal.fleet.job import Job
from shoal.fleet.partitions.table import read_table_file
from shoal.fleet.project.file import Project
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.status.doctor import CheckResult, CheckStatus, partitions_complete


async def check_tables(
    project: Project, jobs: Sequence[Job], partition_table: str | None = None
) -> AsyncIterator[CheckResult]:
    """Compare the partition table of each job, or this file, with its declared seeds."""
    try:
        given = read_table_file(Path(partition_table)) if partition_table else {}
    except ShoalError as error:
        yield CheckResult("partitions", CheckStatus.BAD, str(error))
        return
    if given and not jobs:
        yield _uncompared(given)
    for job in jobs:
        if homes := given or job.homes:
            result = await _check_table(homes, project, job)
            yield replace(result, what=f"partitions of {job.scraper.name}") if len(jobs) > 1 else result


async def _check_table(homes: Mapping[str, int], project: Project, job: Job) -> CheckResult:
    try:
        feed = declared_seeds(project, job).read_offline(job.scraper, project.routes)
        if feed is None:
            return _uncompared(homes)
        names = {task.partition async for task in feed}
    except (ShoalError, OSError) as error:
        return CheckResult("partitions", CheckStatus.BAD, str(error))
    return partitions_complete(homes, names, f"the scraper {job.scraper.name!r}")


def _uncompared(homes: Mapping[str, int]) -> CheckResult:
    serving = counted(len(set(homes.values())), "worker")
    says = f"{len(homes):,} for {serving}; compared with those of a run when its tasks are enqueued"
    return CheckResult("partitions", CheckStatus.GOOD, says)

"""From the options on logs, metrics and traces to what a job is told."""

from typing import Any

from shoal.core.events import read_level
from shoal.core.values import read_choice
from shoal.fleet.logs import LogFormat, LogPlan, log_place
from shoal.fleet.watch import watching


def read_watching(
    log_dir: str | None,
    log_format: str,
    log_level: str,
    metrics: str | None,
    trace: bool,
    *,
    has_data: bool = False,
) -> dict[str, Any]:
    """Return the fields of a job; raises what is wrong or missing before anything begins.

    With `has_data` the command writes data to stdout, and its log lines go to stderr.
    """
    level = read_level("--log-level", log_level)
    look = LogFormat(read_choice("--log-format", log_format, [str(one) for one in LogFormat]))
    plan = LogPlan(folder=log_place(log_dir), format=look, level=level) if log_dir else None
    if plan and has_data:
        plan = plan.off_stdout()
    return watching(plan, metrics, trace, key="--metrics")

"""Turns the options for logs, metrics and traces into fields of a job."""

from typing import Any

from shoal.core.events import read_level
from shoal.core.values import read_choice
from shoal.fleet.telemetry.logs import LogFormat, LogPlan, read_log_target
from shoal.fleet.telemetry.setup import open_telemetry


def read_telemetry(
    log_dir: str | None,
    log_format: str,
    log_level: str,
    metrics: str | None,
    trace: bool,
    *,
    has_data: bool = False,
) -> dict[str, Any]:
    """Return the fields of a job; raises for a wrong option or a missing library before anything starts.

    With `has_data` the command writes data to stdout, so log lines go to stderr.
    """
    level = read_level("--log-level", log_level)
    look = LogFormat(read_choice("--log-format", log_format, [str(one) for one in LogFormat]))
    plan = LogPlan(folder=read_log_target(log_dir), format=look, level=level) if log_dir else None
    if plan and has_data:
        plan = plan.off_stdout()
    return open_telemetry(plan, metrics, trace, key="--metrics")

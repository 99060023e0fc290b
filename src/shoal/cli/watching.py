"""From the options on logs, metrics and traces to what a job is told."""

from pathlib import Path
from typing import Any

from shoal.core.events import read_level
from shoal.core.values import read_choice
from shoal.fleet.logs import LogFormat, LogPlan
from shoal.fleet.watch import watching


def read_watching(
    log_dir: str | None, log_format: str, log_level: str, metrics: str | None, trace: bool
) -> dict[str, Any]:
    """Return the fields of a job; raises what is wrong or missing before anything begins."""
    level = read_level("--log-level", log_level)
    look = LogFormat(read_choice("--log-format", log_format, [str(one) for one in LogFormat]))
    plan = LogPlan(folder=Path(log_dir), format=look, level=level) if log_dir else None
    return watching(plan, metrics, trace, key="--metrics")

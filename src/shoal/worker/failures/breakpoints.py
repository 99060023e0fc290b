"""`breakpoint()` in a worker: a process without a terminal cannot start a debugger."""

import os
import shlex
import sys
from bdb import BdbQuit
from typing import Any

from shoal.core.commands import shoal_command
from shoal.core.errors import BreakpointRefused
from shoal.core.model import Lease
from shoal.scrape.step import Step
from shoal.worker.failures.tracebacks import shown_path

PDB = ("", "pdb.set_trace")  # values of PYTHONBREAKPOINT that need a terminal; others may not


def refuse_breakpoints() -> None:
    """Make `breakpoint()` raise BdbQuit in this process, unless PYTHONBREAKPOINT names another debugger."""
    sys.breakpointhook = _quit


def _quit(*args: Any, **kwargs: Any) -> Any:
    if os.environ.get("PYTHONBREAKPOINT", "") in PDB:
        raise BdbQuit
    return sys.__breakpointhook__(*args, **kwargs)


def explain_quit(lease: Lease, step: Step, *, is_first: bool) -> BreakpointRefused:
    """Return the error for a step whose debugger has ended at once, with the command to type."""
    url, file = lease.task.url, shlex.quote(shown_path(step.filename))
    if is_first and url:
        command = f"shoal run --debug {file} --url {shlex.quote(url)}"
    else:
        command = shoal_command(f"dead shell {lease.run_id} {lease.task_id} {file}") + ", and there: run()"
    return BreakpointRefused(step.name, command)

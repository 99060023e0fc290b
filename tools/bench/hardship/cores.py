"""Parts of a core, one for each worker: so that few cores show how workers add up on many."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

GROUPS = Path("/sys/fs/cgroup/cpu")  # control groups of the first version; only root may make them
PERIOD = 10_000  # microseconds: short, so that a worker does not stand still for long


class Cores:
    """Lends each process the same part of a core."""

    def __init__(self, part: float) -> None:
        self._part = part
        self._lent: dict[int, Path] = {}

    @staticmethod
    def are_there() -> bool:
        """Say whether parts of a core can be had here."""
        return os.access(GROUPS / "cpu.cfs_quota_us", os.W_OK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for group in self._lent.values():
            with suppress(OSError):
                group.rmdir()

    def lend_to(self, pids: Iterable[int]) -> None:
        """See that these have their part, and no more."""
        for pid in pids:
            if pid not in self._lent:
                self._lent[pid] = group = GROUPS / f"shoal-bench-{pid}"
                group.mkdir()
                (group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (group / "cpu.cfs_quota_us").write_text(str(round(self._part * PERIOD)))
                with suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(pid))

"""The outcome of a run, from what its queue shows of it."""

from shoal.core.run_outcome import EndedRun, Verdict, judge
from shoal.fleet.status.progress import Snapshot


def verdict_of(snapshot: Snapshot, failure: str = "") -> Verdict | None:
    """Return the outcome of a run; None if it has not ended. `failure` is why its work could not go on."""
    run, stats = snapshot.run, snapshot.stats
    return judge(
        EndedRun(
            state=run.state,
            counts=stats,
            reason=snapshot.reason,
            lost=stats.lost,
            is_cut=snapshot.is_cut,
            failure=failure,
        )
    )

"""What the progress of a run says while it runs."""

from types import SimpleNamespace

from msgspec.structs import replace

from shoal.cli.progress import ProgressView
from shoal.core.commands import commands_use
from shoal.core.model import RunState, Stats
from shoal.fleet.status.progress import Snapshot
from shoal.worker.counters import WorkerCounters
from tests.unit.builders import make_run

RUN = make_run(id="r1", scraper="books")


def test_a_run_that_is_paused_says_once_how_to_resume_it(capsys):
    pool, paused = SimpleNamespace(tally=WorkerCounters()), replace(RUN, state=RunState.PAUSED)
    with ProgressView() as view, commands_use("--queue redis://db/0"):
        for run in (RUN, paused, paused, RUN, paused):
            view.on_progress(Snapshot(run, Stats(), 0, 0.0, None), pool)
    said = capsys.readouterr().err.replace("\n", " ")
    assert said.count("The run is paused. To resume it, run: shoal resume r1 --queue redis://db/0") == 2

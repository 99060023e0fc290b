"""Which tasks may have ended a worker, and beside how many others they run from then on."""

from shoal.worker.process import suspects as suspects_module
from shoal.worker.process.suspects import Suspects, is_proven


def test_each_death_leaves_a_quarter_of_the_tasks_that_were_in_progress():
    suspects = Suspects()
    assert suspects.add([f"t{number}" for number in range(64)]) == 16
    assert suspects.add([f"t{number}" for number in range(16)]) == 4
    assert suspects.limits["t0"] == 4 and suspects.limits["t16"] == 16
    assert suspects.add(["t0", "t1"]) == 1
    assert suspects.limits["t0"] == 1


def test_a_death_beside_more_tasks_gives_a_suspect_no_larger_limit():
    suspects = Suspects()
    suspects.add(["t0"])
    suspects.add([f"t{number}" for number in range(64)])
    assert suspects.limits["t0"] == 1


def test_the_oldest_suspects_are_forgotten(monkeypatch):
    monkeypatch.setattr(suspects_module, "MAX_SUSPECTS", 2)
    suspects = Suspects()
    for task_id in ("t0", "t1", "t0", "t2"):
        suspects.add([task_id])
    assert list(suspects.limits) == ["t0", "t2"]


def test_a_task_is_charged_only_if_it_had_to_run_alone():
    assert is_proven(["t0"], {"t0": 1})
    assert not is_proven(["t0"], {})
    assert not is_proven(["t0"], {"t0": 4})
    assert not is_proven(["t0", "t1"], {"t0": 1, "t1": 1})
    assert not is_proven([], {})

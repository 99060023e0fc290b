"""The outcome of a run that has ended."""

import pytest

from shoal.core.model import Counts, RunState
from shoal.core.run_outcome import EXIT_CODES, LIMIT_EXIT, EndedRun, Finding, RunOutcome, judge, sentences

STRICT = Finding(text="price is text, was a number", kind="type", strict=True)
WARNING = Finding(text="price is text, was a number", kind="type")
DONE = Counts(completed=10, items=10)


@pytest.mark.parametrize(
    ("outcome", "ended"),
    [
        ("complete", {}),
        ("complete", {"findings": [WARNING]}),
        ("complete", {"state": RunState.PARTIAL, "counts": Counts(), "reason": "nothing new"}),
        ("complete", {"counts": Counts(completed=10)}),
        ("partial", {"counts": Counts(completed=9, dead=1, items=9)}),
        ("partial", {"lost": 1}),
        ("partial", {"is_cut": True}),
        ("partial", {"state": RunState.PARTIAL, "counts": Counts(completed=9, pending=1, items=9)}),
        ("suspicious", {"findings": [STRICT]}),
        ("suspicious", {"findings": [STRICT], "counts": Counts(completed=9, dead=1, items=9)}),
        ("blocked", {"counts": Counts(completed=5, dead=5, items=5), "blocked": 5}),
        ("partial", {"counts": Counts(completed=6, dead=4, items=5), "blocked": 4}),
        ("empty", {"counts": Counts(completed=10), "expects_items": True}),
        ("cancelled", {"state": RunState.CANCELLED, "counts": Counts(completed=9, pending=1)}),
        ("timed_out", {"counts": Counts(completed=9, pending=1), "timed_out": True}),
        ("complete", {"timed_out": True}),
        ("failed", {"failure": "the hook on_run_finish failed"}),
        ("failed", {"counts": Counts(dead=3)}),
        (None, {"counts": Counts(completed=9, pending=1)}),
    ],
)
def test_a_run_is_judged_by_how_it_ended_and_what_it_got(outcome, ended):
    verdict = judge(EndedRun(**({"state": RunState.RUNNING, "counts": DONE} | ended)))
    assert (verdict and verdict.outcome) == outcome


def test_every_outcome_has_an_exit_code_of_its_own_and_partial_one_more_for_limits():
    codes = [outcome.exit_code for outcome in RunOutcome]
    assert len({*codes, LIMIT_EXIT}) == len(RunOutcome) + 1
    assert set(EXIT_CODES) == set(RunOutcome)
    cut = judge(EndedRun(state=RunState.RUNNING, counts=DONE, is_cut=True))
    assert cut and cut.exit_code == LIMIT_EXIT


def test_the_reason_says_what_was_found():
    verdict = judge(EndedRun(state=RunState.RUNNING, counts=DONE, findings=[STRICT, WARNING]))
    assert verdict and verdict.reason == STRICT.text


def test_fields_of_which_the_same_is_true_share_a_sentence():
    def empty(field, text="filled in 0% of the items", step="product"):
        return Finding(text=f"{field}: {text}", kind="filled", step=step, field=field, since="r1")

    rule = Finding(text="expected 'sku unique': 2 items not", strict=True, step="product", field="sku")
    found = [rule, *map(empty, ("sku", "name", "price", "stock", "brand")), empty("rating", "text in 9%")]
    assert sentences(found) == [
        rule.text,
        "sku, name, price and 2 more: filled in 0% of the items",
        "rating: text in 9%",
    ]
    assert sentences([empty("name"), empty("price")]) == ["name and price: filled in 0% of the items"]
    assert len(sentences([empty("name"), empty("name", step="offer")])) == 2

"""Errors of a run from a program name keywords, and leave commands to type as they are."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.script.options import in_python, named_as_keywords


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "At private hosts, unless you allow it; they stay queued. Resume the run with: "
            "--allow-private 127.0.0.1:8461. It is not restarted.",
            "At private hosts, unless you allow it. Allow it with: allow_private=['127.0.0.1:8461']. "
            "It is not restarted.",
        ),
        (
            "unless you allow it; they stay queued. Resume the run with: --allow-private a:1 "
            "--allow-private b.",
            "unless you allow it. Allow it with: allow_private=['a:1', 'b'].",
        ),
        ("--per-host must be at least 1", "per_host must be at least 1"),
        ("Give it again: --set proxies=…", "Give it again: proxies=…"),
        ("leave out --resume and --run. Its items are still there: shoal export R --to items.jsonl",) * 2,
        ("Add --overwrite to replace it", "Add --overwrite to replace it"),
    ],
)
def test_options_are_named_as_keywords(said, shown):
    shown = shown.replace("--resume and --run", "resume and run_id")
    assert in_python(said) == shown


def test_the_class_and_the_facts_of_an_error_stay():
    with pytest.raises(InvalidSetting, match=r"^resume found no run$") as raised, named_as_keywords():
        raise InvalidSetting("--resume", "found no run")
    assert raised.value.reason == "found no run"

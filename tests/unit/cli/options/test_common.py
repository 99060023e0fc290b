"""Options that several commands share."""

import pytest

from tests.unit.cli.typed import typed


@pytest.mark.parametrize("command", ["run", "fleet"])
def test_resume_without_a_run_does_not_take_the_next_option_for_one(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = typed(command, "books.py", "--resume", "--out", "books.jsonl")
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert "needs a run before --out: write --resume RUN, or --resume newest." in words


@pytest.mark.parametrize("words", [("dead", "list", "newest"), ("runs",), ("start", "--role", "worker")])
def test_an_empty_address_is_refused_and_no_queue_without_runs(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = typed(*words, "--queue", "")
    assert done.exit_code == 2
    assert "is empty. Write the address of the queue, or set SHOAL_QUEUE" in " ".join(done.output.split())

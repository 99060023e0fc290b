"""Options that several commands share."""

import pytest

from shoal.cli.commands.crawl.enqueue import report
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


def test_an_empty_address_is_that_of_the_project_where_a_shown_command_finds_no_variable(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.toml").write_text('queue = "sqlite:///named.db"')
    done = typed("runs", "--queue", "")
    assert done.exit_code == 0 and "sqlite:///named.db" in done.output


def test_the_command_of_a_queue_with_a_password_says_where_it_works_also_as_json(capsys):
    report({"run_id": "r", "worker_command": 'shoal work a --run r --queue "$SHOAL_QUEUE"'}, as_json=True)
    assert "set SHOAL_QUEUE to its URL with the password" in capsys.readouterr().err

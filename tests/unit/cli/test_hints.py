"""Commands that messages tell a person to type mean the queue that was typed, and make nothing."""

import subprocess

import pytest

from shoal.cli.asking import ask_existing
from shoal.cli.job import read_job
from shoal.cli.main import meaning_the_queue
from shoal.core.errors import UnknownLetter, UnknownRun
from shoal.fleet.retyping import needs_secret, typed_on, worker_command

OTHER = "sqlite:///other folder/other.db"
SECRET = "postgresql://me:hush@db/shoal"


def test_a_command_names_its_queue_unless_it_is_meant_anyway(monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    assert typed_on("sqlite:///shoal.db", "runs") == "shoal runs"
    assert typed_on(OTHER, "runs") == "shoal runs --queue 'sqlite:///other folder/other.db'"
    assert "hush" not in typed_on(SECRET, "runs")


@pytest.mark.parametrize("typed", [["--queue", OTHER], [f"--queue={OTHER}"]])
@pytest.mark.parametrize("error", [UnknownRun("nope", []), UnknownLetter("run", "letter")])
def test_the_command_at_the_end_of_an_error_names_the_queue_too(error, typed):
    message = meaning_the_queue(str(error), ["shoal", "status", "nope", *typed, "--json"])
    assert message == f"{error} --queue 'sqlite:///other folder/other.db'"


def test_other_errors_stay_as_they_are():
    typed = ["shoal", "status", "nope", "--queue", OTHER]
    near = str(UnknownRun("nop", ["nope"]))
    assert meaning_the_queue(near, typed) == near
    assert meaning_the_queue("List the runs with: shoal runs", typed[:3]) == "List the runs with: shoal runs"


def test_asking_a_queue_that_is_not_there_finds_it_empty_and_makes_no_file(tmp_path):
    path = tmp_path / "shoal.db"
    assert list(ask_existing(f"sqlite:///{path}", lambda queue: queue.runs())) == []
    assert not path.exists()


@pytest.mark.parametrize(
    "url", [SECRET, "amqp://guest:guest@127.0.0.1/?state=redis://127.0.0.1", "redis://:hush@db/0"]
)
def test_a_command_that_needs_a_password_can_be_pasted_where_the_variable_has_it(url, monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    (_, option, value) = typed_on(url, "runs").partition(" --queue ")
    assert (option, value) == (" --queue ", '"$SHOAL_QUEUE"')
    job = read_job("shoal.demo.scraper:shop", queue=url)
    command = worker_command(job, "r1")
    assert needs_secret(command) and "…" not in command
    seen = subprocess.run(
        ["sh", "-c", f"shoal() {{ printf '%s\\n' \"$@\"; }}; {command}"],
        env={"SHOAL_QUEUE": url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] == url

"""Commands in messages name the typed queue, and create nothing."""

import subprocess

import pytest

from shoal.cli.main import add_queue_option
from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options.job import read_job
from shoal.core.errors import UnknownLetter, UnknownRun
from shoal.fleet.command_hints import command_on, needs_secret, worker_command

OTHER = "sqlite:///other folder/other.db"
SECRET = "postgresql://me:hush@db/shoal"


def test_a_command_names_its_queue_unless_it_is_the_default(monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    assert command_on("sqlite:///shoal.db", "runs") == "shoal runs"
    assert command_on(OTHER, "runs") == "shoal runs --queue 'sqlite:///other folder/other.db'"
    assert "hush" not in command_on(SECRET, "runs")


@pytest.mark.parametrize("typed", [["--queue", OTHER], [f"--queue={OTHER}"]])
@pytest.mark.parametrize("error", [UnknownRun("nope", []), UnknownLetter("run", "letter")])
def test_the_command_at_the_end_of_an_error_names_the_queue_too(error, typed):
    message = add_queue_option(str(error), ["shoal", "status", "nope", *typed, "--json"])
    assert message == f"{error} --queue 'sqlite:///other folder/other.db'"


def test_other_errors_are_unchanged():
    typed = ["shoal", "status", "nope", "--queue", OTHER]
    near = str(UnknownRun("nop", ["nope"]))
    assert add_queue_option(near, typed) == near
    assert add_queue_option("List the runs with: shoal runs", typed[:3]) == "List the runs with: shoal runs"


def test_reading_a_missing_queue_finds_it_empty_and_creates_no_file(tmp_path):
    path = tmp_path / "shoal.db"
    assert list(with_existing_queue(f"sqlite:///{path}", lambda queue: queue.runs())) == []
    assert not path.exists()


@pytest.mark.parametrize(
    "url", [SECRET, "amqp://guest:guest@127.0.0.1/?state=redis://127.0.0.1", "redis://:hush@db/0"]
)
def test_a_command_that_needs_a_password_reads_it_from_the_variable(url, monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    (_, option, value) = command_on(url, "runs").partition(" --queue ")
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

"""Commands in messages name the typed queue, and create nothing."""

import subprocess

import pytest

from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options.workers import read_job
from shoal.core.commands import commands_use, run_command
from shoal.core.errors import UnknownLetter, UnknownRun
from shoal.fleet.command_hints import command_on, messages_on, needs_secret, worker_command

OTHER = "sqlite:///other folder/other.db"
SECRET = "postgresql://me:hush@db/shoal"


def test_a_command_names_its_queue_unless_it_is_the_default(monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    assert command_on("sqlite:///shoal.db", "runs") == "shoal runs"
    assert command_on(OTHER, "runs") == "shoal runs --queue 'sqlite:///other folder/other.db'"
    assert "hush" not in command_on(SECRET, "runs")


@pytest.mark.parametrize("make", [lambda: UnknownRun("nope", []), lambda: UnknownLetter("run", "letter")])
def test_the_command_of_an_error_names_the_queue_in_use(make, monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    plain = str(make())
    with messages_on("sqlite:///shoal.db"):
        assert str(make()) == plain
    with messages_on(OTHER):
        assert str(make()) == f"{plain} --queue 'sqlite:///other folder/other.db'"
        with messages_on(SECRET):  # nobody can say which of the two is meant
            assert str(make()) == plain
    assert str(make()) == plain


def test_a_command_of_a_worker_names_its_run():
    assert run_command("dead replay") == "shoal dead replay newest"
    with commands_use("--queue redis://db/0", "r1"):
        assert run_command("dead replay") == "shoal dead replay r1 --queue redis://db/0"


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


def test_the_command_of_a_worker_names_its_share_of_the_tasks():
    job = read_job("shoal.demo.scraper:shop", queue=OTHER, steps=["product"], partitions=["CA", "NY"])
    assert (
        "shoal work shoal.demo.scraper:shop --run r1 --steps product --partitions CA,NY --queue"
        in worker_command(job, "r1")
    )

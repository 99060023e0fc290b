"""What commands say of runs that nobody works on, that are in use, and of filters that match nothing."""

import asyncio
import re
import socket

import msgspec
import pytest

from shoal.cli.exits import Exit
from shoal.cli.options.workers import read_job
from shoal.cli.registry import BY_SECTION
from shoal.core.errors import InvalidSetting
from shoal.core.model import Bury, Done, Reject, Task
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.run.open_run import find_existing
from shoal.fleet.sources.declared import mark_seeding
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.seeding import TOPIC, Seeder
from shoal.queue.open import open_queue
from shoal.scrape.settings.scraper import ScraperSettings
from tests.unit.cli.typed import paste, typed

RUN = "20260215_120000_ab12"


def on_queue(work):
    async def run():
        async with open_queue("sqlite:///shoal.db") as queue:
            return await work(queue)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    on_queue(_fill)
    return tmp_path


async def _fill(queue):
    await queue.start_run("books", run_id=RUN)
    await queue.enqueue(RUN, [Task(url=f"http://{n}.example/", step="page") for n in range(4)])
    one, two, three = (await queue.claim("w", run_id=RUN, limit=3)).leases
    await queue.settle(
        [
            Done(one, items=[{"n": 1}], rejects=[Reject(data={"n": 2}, reason="n: too large")]),
            Bury(two, "HttpStatus: 404"),
            Bury(three, "ValueError: no price"),
        ]
    )


@pytest.fixture
def worker(folder):
    async def beat(queue):
        await queue.beat(new_worker_id(), run_id=RUN, state="running", info={"pid_scope": pid_scope()})

    on_queue(beat)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("dead", "list", RUN, "--error", "x"), "None of 2 dead letters matches --error x."),
        (("dead", "replay", RUN, "--host", "b.example"), "None of 2 dead letters matches --host b.example."),
        (("dead", "drop", RUN, "--step", "s", "--yes"), "None of 2 dead letters matches --step s."),
        (("items", RUN, "--step", "s"), "The only item does not match --step s."),
        (("rejects", RUN, "--reason", "x"), "The only rejected item does not match --reason x."),
        (("records", RUN, "--state", "expired"), "None of 4 tasks matches --state expired."),
        (("workers", RUN), "No workers on this run yet."),
        (("hosts", "--run", RUN, "--after", "z"), "No host comes after z."),
    ],
)
def test_a_filter_that_matches_nothing_says_how_many_there_are(words, says):
    done = typed(*words)
    assert says in done.stderr and not done.stdout


def test_the_cache_is_shown_with_the_hit_rate_of_runs():
    assert "The cache in sqlite:///shoal.db is empty." in typed("cache").stdout
    assert "To use one: shoal run FILE --cache 10m" in typed("cache").stderr

    async def use(queue):
        await queue.write_notes("cache", {"a": b"12345", "b": b"1"})
        await queue.beat("w", run_id=RUN, state="ended", info={"cache": {"hits": 1, "misses": 2}})

    on_queue(use)
    shown = typed("cache").stdout
    assert re.match(r"Cache in sqlite:///shoal.db: 2 entries, 0.0 KB, the oldest \d+ s old\.\n", shown), shown
    assert "33.3%" in shown and RUN in shown
    told = msgspec.json.decode(typed("cache", "newest", "--json").stdout)
    assert (told["entries"], told["bytes"], told["queue"]) == (2, 6, "sqlite:///shoal.db")
    assert told["runs"] == [{"run_id": RUN, "hits": 1, "misses": 2, "hit_rate": 0.3333}]
    assert typed("cache", "--folder", "nowhere").exit_code == Exit.USAGE


def test_letters_are_replayed_after_a_delay_and_a_wrong_one_is_refused():
    wrong = typed("dead", "replay", RUN, "--delay", "soon")
    assert wrong.exit_code == Exit.USAGE
    assert "--delay must be a duration such as '30s'" in wrong.stderr
    assert typed("dead", "replay", RUN, "--delay", "0").exit_code == Exit.USAGE
    done = typed("dead", "replay", RUN, "--error", "HttpStatus", "--delay", "10m", "--json")
    assert msgspec.json.decode(done.stdout) == {"run_id": RUN, "replayed": 1, "delay_seconds": 600.0}
    said = typed("dead", "replay", RUN, "--delay", "90s").stderr
    assert "1 task is delayed for 1 min 30 s, then pending again. No worker works on the run." in said
    assert on_queue(lambda queue: queue.stats(RUN)).delayed == 2


@pytest.mark.parametrize("words", [("pause",), ("slow", "--gap", "2s"), ("resume",)])
def test_a_host_that_no_run_knows_is_changed_and_similar_ones_are_named(words):
    on_queue(lambda queue: queue.enqueue(RUN, [Task(url="http://1.example:8080/")]))
    verb, *options = words
    said = typed("hosts", verb, "1.example", *options)
    assert said.exit_code == Exit.OK and "No run" not in said.stderr
    unknown = typed("hosts", verb, "1.example:80", *options).stderr.replace("\n", " ")
    assert "No run has tasks on 1.example:80 yet. Did you mean 1.example or 1.example:8080?" in unknown
    assert "List the hosts with: shoal hosts" in unknown


def test_a_run_in_use_is_not_deleted_and_the_shown_command_lets_it_be(worker):
    refused = typed("purge", RUN, "--yes")
    assert refused.exit_code == Exit.USAGE
    assert "is running and not deleted: 1 worker runs on it" in refused.stderr.replace("\n", " ")
    assert typed("purge", RUN, "--dry-run").exit_code == Exit.USAGE
    (command,) = re.findall(r"shoal cancel \S+", refused.stderr)
    assert paste(command).exit_code == Exit.OK
    assert typed("purge", RUN, "--yes").exit_code == Exit.OK
    assert "No runs yet" in typed("runs").stderr


def test_a_dry_run_of_one_run_shows_what_would_go():
    shown = typed("purge", RUN, "--dry-run")
    assert "Would delete 1 run with 4 tasks, 1 item, 2 dead letters." in shown.stderr
    row = msgspec.json.decode(typed("purge", RUN, "--dry-run", "--json").stdout)
    assert (row["purged"], row["dry_run"], row["items"]) == (False, True, 1)
    assert typed("status", RUN).exit_code == Exit.OK


def test_keeping_no_run_is_refused_with_the_command_that_deletes_all_finished_ones():
    refused = typed("purge", "--keep", "0")
    assert refused.exit_code == Exit.USAGE and "--keep 0 keeps no run" in refused.stderr
    (command,) = re.findall(r"shoal purge --older \S+", refused.stderr)
    assert paste(f"{command} --dry-run").exit_code == Exit.OK


@pytest.mark.parametrize("words", [("set", RUN, "rate=2/s"), ("resume", RUN)])
def test_nobody_follows_a_change_if_nobody_works(words):
    said = typed(*words).stderr
    assert f"No worker works on the run. To start one, run: shoal run books --resume {RUN}" in said
    assert "follow" not in said and "notice" not in said


@pytest.mark.parametrize("words", [("set", RUN, "rate=2/s"), ("resume", RUN)])
def test_workers_that_are_there_are_said_to_follow(worker, words):
    said = typed(*words).stderr
    assert "Its workers" in said and "No worker" not in said


def test_the_settings_are_listed_with_a_command_that_changes_one():
    listed = typed("set", RUN)
    assert "max_pages" in listed.stdout or "rate" in listed.stdout
    (command,) = re.findall(r"run: (shoal set .+)", listed.stderr)
    assert paste(command).exit_code == Exit.OK


def test_a_report_is_whole_on_stdout_and_the_next_commands_are_on_stderr():
    status = typed("status", RUN)
    assert f"Run {RUN} of books: stopped" in status.stdout and "Store: " in status.stdout
    assert "1 task left, and no worker works on it." in status.stdout
    assert all(":  shoal " in line or line.startswith("Queue ") for line in status.stderr.splitlines())
    letter = msgspec.json.decode(typed("dead", "list", RUN, "--json").stdout.splitlines()[0])["id"]
    shown = typed("dead", "show", RUN, letter)
    assert f"id         {letter}" in shown.stdout and "HttpStatus: 404" in shown.stdout
    assert all(":   shoal dead " in line for line in shown.stderr.splitlines())


WHOLE_QUEUE = {"top", "serve", "runs", "metrics"}  # they show all runs
OF_A_RUN = [name for group in ("Inspect", "Results") for name in BY_SECTION[group] if name not in WHOLE_QUEUE]


@pytest.mark.parametrize("name", OF_A_RUN)
def test_every_command_that_inspects_a_run_takes_its_id_or_newest(name):
    typed("cancel", RUN)  # `watch` ends
    for run in ("newest", RUN[:8]):
        shown = typed(name, run, *(("--to", "-") if name == "export" else ()), "--json")
        # There is no other run to compare it with.
        assert shown.exit_code == (Exit.USAGE if name == "compare" else Exit.OK), shown.stderr


@pytest.mark.parametrize("state", ["stopped", "paused"])
def test_a_run_that_cannot_go_on_by_itself_names_the_command_that_lets_it(state, monkeypatch):
    def end(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.cli.commands.inspect.status.asyncio.sleep", end)
    command = f"shoal run books --resume {RUN}"
    if state == "paused":
        typed("pause", RUN)
        command = f"shoal resume {RUN}"
    status, watched = typed("status", RUN), typed("watch", RUN)
    assert f"Resume:  {command}\n" in status.stderr
    assert watched.exit_code == Exit.INTERRUPTED
    assert watched.stderr.splitlines()[0].startswith(state) and watched.stderr.endswith(f"run: {command}\n")
    if state == "paused":
        assert "1 task left. The run is paused, and no worker is running on it." in status.stdout


def test_seeds_that_were_interrupted_leave_a_stopped_run():
    async def interrupt(queue):
        await queue.start_run("films", run_id="r2")
        gone = Seeder(f"{socket.gethostname()}-999999999-x", pid_scope())  # no process has this number
        await queue.write_notes(TOPIC, {"r2": msgspec.json.encode(gone)})

    on_queue(interrupt)
    status = typed("status", "r2")
    assert "films: stopped" in status.stdout
    assert "Enqueueing its seeds was interrupted, and no worker is running on it." in status.stdout
    assert "Resume:  shoal run films --resume r2" in status.stderr


def test_seeds_of_a_process_that_is_there_leave_the_run_running():
    async def seed(queue):
        await queue.start_run("films", run_id="r2")
        await mark_seeding(queue, "r2", Seeds(declared_in="shops.py", of_scraper=True))

    on_queue(seed)
    assert "films: running" in typed("status", "r2").stdout


def test_no_run_to_resume_names_the_one_that_ended_at_its_limit(folder):
    (folder / "films.py").write_text(
        "from shoal import Scraper\nfilms = Scraper('films')\n@films.step\n"
        "async def main(page):\n    yield {}\n"
    )

    async def end(queue):
        await queue.start_run("films", run_id="r2")
        await queue.enqueue("r2", [Task(url="http://a.example/"), Task(url="http://b.example/")])
        await queue.finish("r2", "max_pages=1 reached")
        await find_existing(queue, read_job("films.py", queue="sqlite:///shoal.db"), None, resume=True)

    with pytest.raises(InvalidSetting) as refused:
        on_queue(end)
    said = str(refused.value)
    assert "Run r2 ended, max_pages=1 reached, with 2 tasks left. To go on with it, run: " in said
    assert "shoal run films --resume r2 --set max_pages=1" in said


def test_skip_says_that_it_takes_patterns():
    with pytest.raises(InvalidSetting, match=r"takes patterns.*'any' is for scope.*skip=none") as caught:
        ScraperSettings.read(skip="any")
    assert "must be" not in str(caught.value)


@pytest.mark.parametrize("exists", [False, True])
def test_the_command_that_exports_works_as_it_is_typed(folder, exists):
    if exists:
        (folder / "items.jsonl").write_text("other\n")
    said = typed("cancel", RUN).stderr
    (command,) = re.findall(r"run: (shoal export .+)", said)
    assert paste(command).exit_code == Exit.OK
    assert not exists or (folder / "items.jsonl").read_text() == "other\n"


def test_the_command_to_try_again_takes_the_letters_that_were_listed():
    listed = typed("dead", "list", RUN, "--error", "no price").stderr
    assert f"Try again:  shoal dead replay {RUN} --error 'no price'" in listed
    again = paste(listed.partition("Try again:  ")[2].splitlines()[0])
    assert "1 task is pending again" in again.stderr
    assert f"Try again:  shoal dead replay {RUN}\n" in typed("dead", "list", RUN).stderr


def test_the_end_of_a_dead_letters_id_names_it_in_every_command():
    async def ids(queue):
        return [letter.id async for letter in queue.dead(RUN)]

    one, two = on_queue(ids)
    shown = typed("dead", "show", RUN, one[-6:])
    assert one in shown.stdout and f"dead shell {RUN} {one}" in shown.stderr
    missing = typed("dead", "drop", RUN, one[-6:], "000000")
    assert missing.exit_code == Exit.USAGE and "has no dead letter '000000'" in missing.stderr
    assert on_queue(ids) == [one, two]
    short = typed("dead", "show", RUN, one[:3])
    assert short.exit_code == Exit.USAGE and "at least 4 characters" in short.stderr
    edited = typed("dead", "edit", RUN, one[-6:], "--priority", "7", "--json")
    assert msgspec.json.decode(edited.stdout)["edited"] == 1
    assert msgspec.json.decode(typed("dead", "replay", RUN, one[-6:], "--json").stdout)["replayed"] == 1
    assert msgspec.json.decode(typed("dead", "drop", RUN, two[-6:], "--json").stdout)["dropped"] == 1
    assert on_queue(ids) == []


SCRAPER = """
from shoal import Page, Scraper

books = Scraper("books")


@books.step
async def page(page: Page):
    yield {"url": page.url}
"""


@pytest.mark.parametrize("at_work", [False, True])
def test_tasks_added_to_a_run_that_workers_are_at_work_on_need_no_others(folder, request, at_work):
    (folder / "books.py").write_text(SCRAPER)
    if at_work:
        request.getfixturevalue("worker")
    said = typed("enqueue", "books.py", "--run", RUN, "--url", "http://new.example/").stderr
    assert f"Run {RUN}: 1 task queued" in said
    words = (
        "Workers are at work on it. To start more:" if at_work else "Start workers, on this or any machine:"
    )
    assert f"{words}  shoal work books.py --run {RUN}" in said


def test_status_has_the_command_for_dead_letters_and_for_rejects():
    told = typed("status", RUN).stderr
    assert f"Why tasks died:  shoal dead list {RUN}" in told
    (line,) = re.findall("Why items were rejected:  (.*)", told)
    assert "too large" in paste(line).stdout


def test_a_setting_of_a_run_without_tasks_names_no_command_that_would_do_nothing():
    assert "No worker works on the run. To start one, run: " in typed("set", RUN, "rate=2/s").stderr

    async def end(queue):
        (last,) = (await queue.claim("w", run_id=RUN, limit=1)).leases
        await queue.settle([Done(last)])

    on_queue(end)
    assert typed("pause", RUN).stderr == f"Run {RUN} has already finished; nothing was paused.\n"
    assert msgspec.json.decode(typed("pause", RUN, "--json").stdout)["state"] == "finished"
    told = typed("set", RUN, "rate=3/s").stderr
    assert told == (f"Changed for run {RUN}: rate=3/s. It has no tasks left until you replay or add some.\n")


def test_a_run_that_has_finished_is_not_called_resumed():
    async def finish(queue):
        (last,) = (await queue.claim("w", run_id=RUN, limit=1)).leases
        await queue.settle([Done(last)])

    on_queue(finish)
    said = typed("resume", RUN)
    assert said.exit_code == Exit.OK
    assert said.stderr.startswith(f"Run {RUN} has already finished; nothing was resumed. It has no tasks")
    assert typed("pause", RUN).stderr.startswith(f"Run {RUN} has already finished; nothing was paused.")


def test_a_run_that_has_used_its_pages_is_not_resumed_and_the_command_for_more_is_shown():
    on_queue(lambda queue: queue.finish(RUN, "max_pages=3 reached"))
    refused = typed("resume", RUN)
    assert refused.exit_code == Exit.USAGE, refused.stderr
    command = refused.stderr.partition("Raise the limit: ")[2].strip()
    assert command == f"shoal set {RUN} max_pages=6"
    assert "It had ended: max_pages=3 reached." in paste(command).stderr

"""What the chaos campaign says in the end."""

import json
from collections import Counter

import pytest

from tools.chaos.__main__ import command, main, read_options
from tools.chaos.history import Departure, History, Manners, Strike, Visit
from tools.chaos.report import as_json, complaints, failed, result, table, write_page
from tools.chaos.site import Site

ABOUT = {
    "began": "2026-11-15T12:00:00+00:00",
    "command": "make chaos ARGS='--seed 7'",
    "cpus": 2,
    "hosts": 24,
    "launchers": 2,
    "workers": 3,
    "delay": "0.5 s",
    "per_host": 2,
    "lease": "3 s",
}


def history(pages=3, **changes):
    """Return the history of a small site that was crawled twice a second, with two kills."""
    told = {
        "site": Site(pages, hosts=1),
        "manners": Manners(),
        "visits": [Visit(0, page, page / 2, page / 2 + 0.1, 200) for page in range(pages)],
        "strikes": [Strike("kill", "worker 7", at, at, 16) for at in (0.1, 0.6)],
        "items": Counter(range(pages)),
        "letters": {},
        "status": {"completed": pages, "dead": 0, "items": pages},
        "departures": [Departure(1, 0, "", 0.0)],
        "over": 3.6,
        "stale": 4,
    }
    return History(**(told | changes))


def test_a_campaign_that_held_is_one_line_with_its_figures():
    heading, line = table([result("sqlite", 7, history())]).splitlines()
    assert heading.split()[:2] == ["queue", "pages"]
    assert " ".join(line.split()) == "sqlite 3 2 kill 0 0 0 0 4 1.000 0.4 s 3.0 s held"


def test_what_was_broken_is_named_and_can_be_repeated():
    broken = result("redis", 7, history(items=Counter([0, 1, 1])))
    assert broken.verdict == "BROKEN: lost, doubled"
    assert (broken.lost, broken.doubled) == (1, 1)
    assert complaints(broken).splitlines()[0] == "redis, --seed 7:"
    assert "  doubled: page 1 has 2 items" in complaints(broken)


def test_of_many_complaints_some_are_shown():
    lines = complaints(result("redis", 7, history(pages=20, items=Counter()))).splitlines()
    assert sum("lost: page" in line for line in lines) == 5
    assert "  lost: and 15 more" in lines


def test_a_campaign_that_could_not_be_carried_out_has_not_held():
    assert failed("redis", 7, "no server").verdict == "BROKEN: failed"


def test_the_json_holds_the_figures_and_every_complaint():
    broken = result("redis", 7, history(items=Counter([0, 1, 1])))
    found = json.loads(as_json([broken], ABOUT))
    assert found["command"] == ABOUT["command"]
    (row,) = found["queues"]
    assert (row["queue"], row["stale"], row["faults"]) == ("redis", 4, {"kill": 2})
    assert row["broken"]["doubled"] == ["page 1 has 2 items"]


def test_the_page_has_the_table_and_the_command(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("Before\n<!-- chaos: make chaos -->\nold\n<!-- end -->\nafter\n")
    write_page([result("sqlite", 7, history())], ABOUT, page)
    text = page.read_text()
    assert "| sqlite | 3 | 2 kill | 0 | 0 | 0 | 0 | 4 | 1.000 |" in text
    assert ABOUT["command"] in text
    assert "old" not in text and text.startswith("Before\n") and text.endswith("\n<!-- end -->\nafter\n")


def test_the_command_to_repeat_a_campaign_is_read_as_it_was_meant():
    words = ["--queue", "redis", "--faults", "kill,cut", "--every", "500ms", "--seed", "7", "--json"]
    options = read_options([*words, "--keep", "somewhere"])
    typed = command(options).removeprefix("make chaos ARGS='").removesuffix("'")
    again = vars(read_options(typed.split()))
    assert again == vars(options) | {"keep": None, "json": False}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--queue", "sqlitee"], "No queue is called 'sqlitee'. Did you mean 'sqlite'?"),
        (["--faults", "kil"], "No fault is called 'kil'. Did you mean 'kill'?"),
        (["--every", "soon"], "must be a duration such as '30s'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_hint(words, complaint, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["chaos", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert complaint in capsys.readouterr().err

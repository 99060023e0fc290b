"""Lists fit the terminal, and no cell is cut."""

import io
import os
import pty

import pytest
from rich.cells import cell_len
from rich.console import Console

from shoal.cli.tables import choose_columns, draw, put_rows
from shoal.fleet.status.rows.row import TableColumns

RUN = "20261116_024225_ab12"
WORKER = "a-very-long-host-name.of-a-cluster.example.internal-1234567-0123abcd"
LEFT_OUT = {60: ("started_at", "scraper", "items"), 80: ("started_at",), 120: ()}
URL = "https://shop.example.com/catalogue/" + "a-very-long-path/" * 8 + "index.html?page=1"


def lines(cells, width, *, drops=(), folds=()):
    """Return the lines of a table, and the columns that it leaves out."""
    chosen = {name: cells[name] for name in choose_columns(cells, width, drops=drops, folds=folds)}
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    screen.print(draw(chosen, width, folds=folds))
    return screen.file.getvalue().splitlines(), tuple(name for name in drops if name not in chosen)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_ids_stay_whole_and_urls_wrap(width):
    cells = {"id": ["0123456789abcdef" * 2] * 2, "step": ["book", "page"], "url": [URL, "https://a.example/"]}
    cells |= {"attempts": ["1", "3"], "error": ["ValueError: " + "no price " * 9, "HttpError: 500"]}
    shown, _ = lines(cells, width, drops=("attempts", "step"), folds=("url", "error"))
    assert max(map(len, shown)) <= width
    assert sum("0123456789abcdef" * 2 in line for line in shown) == 2
    assert set("".join(shown)) >= set(URL)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_are_left_out_by_importance_until_the_rest_fits(width):
    cells = {"run_id": [RUN], "scraper": ["books"], "state": ["cancelled"], "remaining": ["1,000,000"]}
    cells |= {"completed": ["1,000,000"], "items": ["2,000,000"], "started_at": ["2026-11-16T02:42:25+00:00"]}
    shown, left_out = lines(cells, width, drops=("started_at", "scraper", "items"))
    assert max(map(len, shown)) <= width
    assert RUN in shown[-1]
    assert "cancelled" in shown[-1]
    assert left_out == LEFT_OUT[width]


def test_a_terminal_that_is_too_narrow_wraps_even_an_id():
    shown, _ = lines({"worker_id": [WORKER], "state": ["running"]}, 40)
    assert max(map(len, shown)) <= 40
    pieces = [line[: len(line) - 9].strip() for line in shown[2:]]
    assert "".join(pieces).replace("running", "").replace(" ", "").startswith(WORKER[:20])


def test_wide_characters_are_measured_by_their_cells():
    shown, _ = lines({"title": ["書籍" * 10], "n": ["1"]}, 30, folds=("title",))
    assert max(map(cell_len, shown)) <= 30
    assert "".join(shown).count("書") == 10


def on_terminal(write, columns, monkeypatch):
    """Return what is written to a real terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr("sys.stdout", screen)
        write()
        screen.flush()
    try:
        return os.read(ours, 100_000).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)


def test_a_terminal_shows_what_fits_and_says_what_was_left_out(monkeypatch, capsys):
    rows = [{"run_id": RUN, "scraper": "s" * 40, "state": "finished"}]
    options = {"as_json": False, "nothing": ""}
    table = TableColumns(tuple(rows[0]), drops=("scraper",))
    shown = on_terminal(lambda: put_rows(rows, table, **options), 60, monkeypatch)
    assert RUN in shown
    assert "ssss" not in shown
    assert (
        "Left out in this width: scraper. To see all columns, add --wide or --json" in capsys.readouterr().err
    )
    whole = on_terminal(lambda: put_rows(rows, table, **options, wide=True), 60, monkeypatch)
    assert "s" * 40 in whole


def test_a_pipe_gets_every_row_on_one_line(capsys):
    rows = [{"id": "a", "url": URL, "error": "x " * 200}]
    put_rows(rows, TableColumns(("id", "url", "error"), drops=("error",)), as_json=False, nothing="")
    assert any(URL in line and "x x" in line for line in capsys.readouterr().out.splitlines())


def test_a_column_that_a_page_has_named_is_text(capsys):
    name = "\x1b]0;title\x07[/nothing] a"
    put_rows([{name: "x"}], TableColumns((name,)), as_json=False, nothing="")
    out = capsys.readouterr().out
    assert "[/nothing] a" in out and "\x1b" not in out and "\x07" not in out


def test_markup_in_a_cell_is_text(capsys):
    put_rows([{"url": "[bold]no[/bold]"}], TableColumns(("url",)), as_json=False, nothing="")
    assert "[bold]no[/bold]" in capsys.readouterr().out

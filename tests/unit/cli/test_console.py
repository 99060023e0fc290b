"""Untrusted text cannot control the terminal."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
import typer

from shoal.cli import terminal
from shoal.cli.console import confirm, put_json, put_text, say
from shoal.core.errors import InvalidInput

HOSTILE = "\x1b]0;PWNED\x1b\\\x1b[2J\x9b31m red\x07\r"


class Screen(io.StringIO):
    def isatty(self):
        return True


def shown(write, text):
    """Return what is written to a terminal as stdout and stderr."""
    terminal.console.cache_clear()
    with Screen() as screen, redirect_stdout(screen), redirect_stderr(screen):
        write(text)
        terminal.console.cache_clear()
        return screen.getvalue()


@pytest.mark.parametrize("write", [say, put_text, put_json])
def test_no_control_sequence_reaches_the_terminal(write):
    sent = shown(write, HOSTILE)
    assert "PWNED" in sent
    assert not {"\x1b", "\x9b", "\x07"} & set(sent)


def test_lines_stay_lines():
    assert shown(say, "one\ntwo").split() == ["one", "two"]


def test_text_for_a_pipe_is_unchanged(capsys):
    put_text(HOSTILE)
    assert capsys.readouterr().out == f"{HOSTILE}\n"


def test_json_is_equal_with_its_control_characters_escaped(capsys):
    put_json({"text": HOSTILE})
    line = capsys.readouterr().out
    assert json.loads(line) == {"text": HOSTILE}
    assert "\x9b" not in line


@pytest.mark.parametrize("reply", ["y\n", "Yes\n", " y \n"])
def test_a_question_and_its_answer_leave_stdout_alone(monkeypatch, capsys, reply):
    monkeypatch.setattr("sys.stdin", io.StringIO(reply))
    confirm("Delete \x1b[31mall?")
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Delete ") and err.endswith("all? [y/N]: ") and "\x1b" not in err


@pytest.mark.parametrize(("reply", "error"), [("n\n", typer.Abort), ("\n", typer.Abort), ("", InvalidInput)])
def test_without_a_yes_nothing_is_done_and_without_a_reply_the_option_is_named(monkeypatch, reply, error):
    monkeypatch.setattr("sys.stdin", io.StringIO(reply))
    with pytest.raises(error) as raised:
        confirm("Delete it?")
    assert error is typer.Abort or "Add --yes" in str(raised.value)

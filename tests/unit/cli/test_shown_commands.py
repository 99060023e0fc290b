"""The parser takes every command that a message, a help text or a page of the control room shows."""

import pytest

from tests.unit.cli.shown import FILES, commands_in, may_show_command, texts
from tests.unit.docs.commands import mentioned, parse_mention


def check(command):
    for words in mentioned(command.replace("'", "")):
        parse_mention(words)


@pytest.mark.parametrize("file", [file for file in FILES if may_show_command(file)])
def test_the_parser_takes_every_command_that_is_shown(file):
    for text in texts(file):
        for command in commands_in(text):
            check(command)


@pytest.mark.parametrize("text", ["Run: shoal dead lst x", "Run: shoal export x --too items.jsonl"])
def test_a_command_that_does_not_exist_would_be_noticed(text):
    (command,) = commands_in(text)
    with pytest.raises(Exception, match=r"lst|too"):
        check(command)
